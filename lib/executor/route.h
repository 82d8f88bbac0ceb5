#pragma once
// The path to one rank: its endpoint once there is one, the flows that have something to send, the leaving frame and
// the arriving frame. Shared by all communicators that both ranks are in. Guarded by the rank's lock.
#include "executor/group.h"
#include "executor/parts.h"
#include "messaging/small_message.h"
#include "health/peer_lane.h"
#include "transports/transport.h"

#include <cstdint>
#include <memory>
#include <string>

namespace anello::executor {

class Route final : public health::PeerLane {
 public:
  enum class State { closed, requested, open, broken };

  Route(Parts& parts, int peer, int local_peer) : parts_(parts), peer_(peer), local_peer_(local_peer) {}

  ~Route() override;
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;

  int peer() const { return peer_; }  // world rank
  int local_peer() const { return local_peer_; }
  State state() const { return state_; }
  transport::Endpoint* endpoint() const { return endpoint_.get(); }
  bool is_open() const override { return state_ == State::open; }
  bool is_broken() const override { return state_ == State::broken; }
  std::int64_t broken_since_ns() const override { return broken_since_ns_; }
  std::string trouble() const override { return endpoint_->trouble(); }
  bool is_socket() const override { return endpoint_->descriptor() >= 0; }
  std::uint64_t came() const override { return came_; }
  // What the break interrupted; empty: the route broke between frames.
  const std::string& broken_in() const { return broken_in_; }

  enum class Sent { not_begun, in_part, requested, complete };

  std::uint32_t interest = 0;  // what the rank's epoll waits for on the endpoint's descriptor
  bool is_counted = false;     // as a route with unsent bytes (Routes::count_unsent)
  bool heard =
      false;  // epoll has reported it, or the last look left something that epoll does not know of: worth a look

  void request() { state_ = State::requested; }
  void open(std::unique_ptr<transport::Endpoint> endpoint);
  // Adds the flow to those that are looked at when there is room to send.
  void list(Flow& flow);
  bool has_work() const { return leaving_.kind != Leaving::Kind::none || !flows_.empty(); }
  // Whether the bytes that the endpoint holds itself have gone out and no others wait.
  bool drained();

  bool has_arrivals() override;

  // Sends what can be sent (push) and takes what has come (pull). True: something moved.
  bool push();
  bool pull();

  // The fast path of messages (fast_messages.cpp): sends one at once, if it is the only thing to send. in_part: some of
  // it has gone, and the rest needs an operation.
  Sent send_small(Flow& flow, const SmallMessage& message);
  // Likewise for a message's RTS, under the number that the group gives its next message; never `complete`.
  Sent send_rts(Flow& flow, const SmallMessage& message, const transport::RemoteAddress& at);
  // For a message that lacks only credit to go at once: takes the frames that have come, which may bring some.
  void pull_for_credit(const Flow& flow, std::size_t bytes);
  void go_on_sending(Operation& operation) { leaving_.operation = &operation; }
  // Takes a message if it is the next arrival and is here completely. rts: the next arrival is an RTS with an address,
  // which the communicator's receives examine; it stays the next arrival until pass_rts.
  enum class Arrived { nothing, message, rts, something_else };
  Arrived take_small(Flow& flow, SmallReceive& wanted);
  const transport::FrameHeader& rts() const { return *incoming_; }
  transport::RemoteAddress rts_address() const;
  void pass_rts();
  // message: the answer to the RTS under the number of the group's next message, and the message is done.
  Arrived take_cts(const Flow& flow);

  // Handles a frame that belongs to a communicator but to no operation: credit, leave, CTS, or an RTS with its address.
  void on_note(Flow& flow, const transport::FrameHeader& header, const transport::RemoteAddress& at);

  void break_off() override;

  // The group has failed: the route stops touching its operations' memory. A note that is leaving still does leave.
  void forget(Group& group);
  // The group goes away: the route sends no more of its notes.
  void forget_notes(Group& group);
  // Whether some of the flow's notes have not left yet.
  bool has_notes(const Flow& flow) const {
    return !flow.notes.empty() || (leaving_.kind == Leaving::Kind::note && leaving_.flow == &flow);
  }

 private:
  struct Leaving {
    enum class Kind : std::uint8_t { none, step, step_rts, eager, rts, message, note };
    Kind kind = Kind::none;
    transport::FrameHeader header;
    const std::byte* payload = nullptr;
    Flow* flow = nullptr;
    RunLane* lane = nullptr;
    Operation* operation = nullptr;
  };
  struct Arriving {
    enum class Mode : std::uint8_t { none, discard, step, keep, message, address };
    Mode mode = Mode::none;
    Flow* flow = nullptr;
    RunLane* lane = nullptr;
    Operation* operation = nullptr;
    EarlyFrame* frame = nullptr;
    transport::RemoteAddress address;  // the part that has come
    std::size_t filled = 0;
  };

  void forget_leaving(const Group& group);
  bool is_free_for(const Flow& flow);
  bool goes_at_once(const Flow& flow, std::size_t bytes) const;
  bool next_frame();
  bool fill(Flow& flow);
  bool fill_note(Flow& flow);
  bool fill_send(Flow& flow);
  bool fill_message(Flow& flow);
  bool fill_step(Flow& flow);
  void fill_step_header(RunLane& lane, FrameKind kind, std::size_t whole, std::size_t bytes);
  void sent();

  const transport::FrameHeader* incoming();
  bool is_early(const transport::FrameHeader& header) const;
  void classify(const transport::FrameHeader& header);
  void keep_for(Group& group, const transport::FrameHeader& header);
  bool consume();
  std::size_t combine(RunLane& lane, std::size_t left);
  void arrived(transport::FrameHeader header);
  std::string arriving_for() const;

  Parts& parts_;
  const int peer_;
  const int local_peer_;
  State state_ = State::closed;
  std::unique_ptr<transport::Endpoint> endpoint_;
  Fifo<Flow, &Flow::next> flows_;
  Leaving leaving_;
  transport::RemoteAddress leaving_address_;  // the payload of a leaving RTS, also of a step
  Arriving arriving_;
  const transport::FrameHeader* incoming_ = nullptr;  // the endpoint has reported it, and it is not handled
  std::vector<std::byte> torn_;                       // the beginning of an element whose rest has not come yet
  std::int64_t broken_since_ns_ = 0;
  std::string broken_in_;
  std::uint64_t came_ = 0;
};

}  // namespace anello::executor
