#pragma once
// One end of a lane over two rings. It holds the rest of a detached frame, and the lane's failure.
#include "transports/shm/ring_reader.h"
#include "transports/shm/ring_writer.h"

#include <memory>

namespace anello::transport {

class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(const memory::Arena& arena, int peer, int local_peer);
  ~ShmEndpoint() override;
  ShmEndpoint(const ShmEndpoint&) = delete;
  ShmEndpoint& operator=(const ShmEndpoint&) = delete;

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return !held_ && writer_.mid_frame(); }
  void detach() override;
  bool flush() override;

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return reader_.remaining(); }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;
  std::size_t arrived() override { return failure_ ? 0 : reader_.arrived(); }

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  bool before_sleep() override;

 private:
  bool first_send();
  void check_writer();
  void check_reader();

  memory::Arena arena_;
  int peer_;
  int local_peer_;
  RingWriter writer_;
  RingReader reader_;
  std::uint64_t answered_ = 0;  // the reader's position at this end's last send
  FrameHeader header_;          // of the frame under way
  const std::byte* payload_ = nullptr;
  std::unique_ptr<std::byte[]> spare_;  // its payload after detach; made early, because the data path cannot fail
  bool held_ = false;                   // the frame under way is in spare_
  bool used_ = false;                   // the ring has pages, and the peer knows about it
  Error failure_;
};

}  // namespace anello::transport
