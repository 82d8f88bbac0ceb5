#pragma once
// One end of a lane over verbs: its queue pair and rings, the greeting before it can be used, the rest of a detached
// frame, and the lane's failure. Beside the lane it has the way to the peer's memory.
#include "transports/verbs/greeting.h"
#include "transports/verbs/inflow.h"
#include "transports/verbs/outflow.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/remote_memory.h"

#include <memory>
#include <string>

namespace anello::transport {

class VerbsEndpoint final : public Endpoint {
 public:
  // memory outlives it. Throws Error.
  VerbsEndpoint(int peer, VerbsRemoteMemory& memory, UniqueFd socket);
  ~VerbsEndpoint() override;
  VerbsEndpoint(const VerbsEndpoint&) = delete;
  VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return !held_ && out_.mid_frame(); }
  void detach() override;
  bool flush() override;
  std::size_t on_the_way() override;

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return in_.remaining(); }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;
  std::size_t arrived() override;

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  int descriptor() const override { return events_.get(); }
  bool must_be_polled() const override { return true; }
  bool before_sleep() override;

  const VerbsCounts& counts() const { return pair_.counts(); }
  const VerbsTransfers& transfers() const { return transfers_; }

 private:
  enum class State { greets, connected, open };

  void progress();
  void greet();
  void take(const ibv_wc& completion);
  void take_number(std::uint32_t number);
  void look_at_socket();
  bool write(const FrameHeader& header, const std::byte* payload);
  // Nothing more can come.
  bool is_over() const { return closed_ || !broken_.empty(); }
  void fail_if_over();
  void break_off(const std::string& cause);
  void finish_sending();
  void look_at_transfers();
  void look_at_port();
  void limit_dead_link();

  const int peer_;
  VerbsRemoteMemory& memory_;
  UniqueFd socket_;
  VerbsMemory ring_;     // the peer writes it
  VerbsMemory staging_;  // the adapter reads it
  VerbsQueuePair pair_;
  VerbsTransfers transfers_;
  VerbsInflow in_;
  VerbsOutflow out_;
  GreetingExchange exchange_;
  UniqueFd dead_link_;  // timerfd: the link has been down for too long
  bool link_is_timed_ = false;
  UniqueFd events_;  // epoll: the completion channel, the socket, the port and the timer
  State state_ = State::greets;
  int used_receives_ = 0;  // requests that have been completed and not posted again

  FrameHeader header_;  // of the frame under way
  const std::byte* payload_ = nullptr;
  std::unique_ptr<std::byte[]> spare_;  // its payload after detach; made early, because the data path cannot fail
  bool held_ = false;                   // the frame under way is in spare_
  unsigned idle_looks_ = 0;
  bool closed_ = false;  // the peer has said goodbye
  bool gone_ = false;    // the peer's socket has ended
  bool told_no_memory_ = false;
  std::string broken_;  // why nothing moves any more
  Error failure_;
};

}  // namespace anello::transport
