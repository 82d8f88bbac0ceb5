#pragma once
// A rank's end of both directions between it and a peer.
#include "memory/arena.h"
#include "transports/inproc/lane.h"

namespace anello::transport {

class InprocEndpoint final : public Endpoint {
 public:
  InprocEndpoint(const memory::Arena& arena, int peer, int local_peer, std::shared_ptr<InprocLane> out,
                 std::shared_ptr<InprocLane> in);
  ~InprocEndpoint() override;
  InprocEndpoint(const InprocEndpoint&) = delete;
  InprocEndpoint& operator=(const InprocEndpoint&) = delete;

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return lent_; }
  void detach() override;
  bool flush() override;

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  bool before_sleep() override;

 private:
  bool queue_full() const;
  bool returned() const;
  void publish();
  void give_back();
  void leave_gate();
  void lose();

  memory::Arena arena_;
  int peer_;
  int local_peer_;
  std::shared_ptr<InprocLane> out_;
  std::shared_ptr<InprocLane> in_;
  // Sending: frames put, and whether the newest is large and unconsumed, in the caller's memory (lent_) or our copy
  // (held_).
  std::uint64_t put_ = 0;
  std::uint32_t lent_bytes_ = 0;
  bool lent_ = false;
  bool held_ = false;
  bool starved_ = false;
  // Receiving: frames taken, and the current one.
  std::uint64_t taken_ = 0;
  FrameHeader header_;
  std::size_t consumed_ = 0;
  bool current_ = false;
  bool inside_ = false;
  bool refused_ = false;  // the sender held the gate at the last view
  Error failure_;
};

}  // namespace anello::transport
