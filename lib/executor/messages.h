#pragma once
// send, recv and probe: matching, and the rendezvous of long messages (messaging/rendezvous.h). Requires the rank's
// lock.
#include "executor/gets.h"
#include "executor/group.h"
#include "executor/parts.h"
#include "executor/route.h"
#include "messaging/rendezvous.h"
#include "messaging/small_message.h"
#include "progress/source.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

class Messages final : public progress::Source {
 public:
  explicit Messages(Parts& parts);

  void post(Operation& operation);
  // Whether there is a message for the probe. If so, the probe's status describes it.
  bool found_by(Operation& probe);

  // ---- The fast path of blocking messages (fast_messages.cpp): without an operation ----
  // in_part: part of the message has gone. requested: its RTS has gone. go_on_sending takes the operation for the rest.
  // waits: this call waits for the answer to an RTS, if it comes at once.
  using Sent = Route::Sent;
  Sent send_now(Group& group, int dest, const SmallMessage& message, bool waits);
  void go_on_sending(Operation& operation, Sent sent);
  // True: the message was there, or came at once, and is in its buffer; wanted describes it. Else nothing has happened.
  bool receive_now(Group& group, int source, SmallReceive& wanted);

  // ---- Functions that routes call ----
  // Whether an arriving message goes straight into a receive posted for it, or nowhere, if it does not fit and `into`
  // stays null. False: no receive is posted for it.
  bool takes_eager(Flow& flow, const transport::FrameHeader& header, Operation*& into);
  void on_eager(Flow& flow, EarlyFrame* frame);
  void on_rts(Flow& flow, const transport::FrameHeader& header, const transport::RemoteAddress& at);
  void on_cts(Flow& flow, const transport::FrameHeader& header);
  // A send's data has been copied to the host, as its receiver cannot get it from the device.
  void data_came(Operation& send);
  // The device's default stream has come to a receive, whose message an adapter may bring there.
  void stream_came(Operation& receive);
  // A receive has its message, which it got from a device's memory. False: the sender's group had failed by then.
  bool has_got_from_device(Operation& receive);
  // Pieces of the message have come from its device.
  void pieces_came(Operation& send);
  // The receive to which the sender was cleared under that number; null if there is none.
  static Operation* find_cleared(Group& group, std::uint32_t number);

  // Moves pending gets, a piece at a time. True: something moved.
  bool move() override;
  // Ends all of the group's messages with an error.
  void end_all(Group& group, const Error& error);

 private:
  void post_send(Operation& operation);
  void post_receive(Operation& operation);
  void post_probe(Operation& probe);
  bool known_type(Flow& flow, const transport::FrameHeader& header);
  bool fits(Operation& receive, int source, int tag, std::uint16_t dtype, std::size_t bytes);
  void deliver(Operation& receive, int source, int tag, std::uint16_t dtype, const std::byte* payload,
               std::size_t bytes);
  void take(Operation& receive, const Unexpected& message);
  void get(Flow& flow, Operation& receive, const transport::RemoteAddress& at);
  void keep_unexpected(Group& group, const Unexpected& message);
  static void answer(Operation& probe, const Unexpected& message);
  void send_cts(Flow& flow, std::uint32_t sender_number, std::uint32_t receiver_number, Answer answer,
                std::uint32_t messages = 0);
  void have_it_sent(Flow& flow, Operation& receive, Gets::Refusal refusal);
  void has_got(Flow& flow, Operation& receive);
  void fetch_for_peer(Operation& send);
  bool get_from_device(const Flow& flow, Operation& receive, const Unexpected& message);

  // The fast path
  bool undisturbed(const Group& group, const Flow& flow) const;
  Sent request_now(Flow& flow, const SmallMessage& message, bool waits);
  bool get_at_once(Flow& flow, SmallReceive& wanted);
  bool took_now(Flow& flow, const SmallReceive& taken);

  Parts& parts_;
  control::Job& job_;
  progress::Driver& driver_;
  FramePool& frames_;
  Activity& activity_;
  Routes& routes_;
  Gets& gets_;
  Outcomes& outcomes_;
};

}  // namespace anello::executor
