#pragma once
// One end of a lane over a socket. It holds the rest of a detached frame, and the lane's failure.
#include "transports/tcp/inflow.h"
#include "transports/tcp/outflow.h"

#include <string>

namespace anello::transport {

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(int peer, UniqueFd fd, std::size_t staging_bytes, Checks checks = {});
  ~TcpEndpoint() override;
  TcpEndpoint(const TcpEndpoint&) = delete;
  TcpEndpoint& operator=(const TcpEndpoint&) = delete;

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return !held_ && out_.mid_frame(); }
  void detach() override;
  bool flush() override;
  std::size_t on_the_way() override;
  // Each system call costs time: on loopback, 1 MiB takes 1.6 times as long in four of them.
  std::size_t frame_bytes() const override { return kMaxFrameBytes; }

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return in_.remaining(); }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  std::string trouble() const override { return trouble_; }
  int descriptor() const override { return fd_.get(); }
  bool wants_room() const override { return out_.blocked() && out_.broken() == 0; }
  bool before_sleep() override { return !failure_ && in_.news(); }

 private:
  void check_out();
  void check_in();
  void lose(int error_number);

  int peer_;
  UniqueFd fd_;
  Outflow out_;
  Inflow in_;
  FrameHeader header_;  // of the frame under way
  const std::byte* payload_ = nullptr;
  std::unique_ptr<std::byte[]> spare_;  // its payload after detach; made early, because the data path cannot fail
  bool held_ = false;                   // the frame under way is in spare_
  Error failure_;
  std::string trouble_;
};

}  // namespace anello::transport
