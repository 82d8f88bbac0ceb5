// Messages: runs blocking sends and receives of small messages from start to end under one hold of the lock, without an
// operation. They keep the order of the general path (messages.cpp), which takes everything less simple.
#include "base/processor.h"
#include "executor/activity.h"
#include "executor/kept_frames.h"
#include "executor/messages.h"
#include "executor/routes.h"
#include "health/peer_fates.h"
#include "progress/driver.h"

#include <algorithm>
#include <cstring>

namespace anello::executor {

// Whether nothing has happened to the peer, or to the communicator, that only the general path handles.
bool Messages::undisturbed(const Group& group, const Flow& flow) const {
  return !group.error && flow.left_ns == 0 && parts_.fates.is_here(group.ranks[std::size_t(flow.peer)]) &&
         !job_.news.load(std::memory_order_relaxed);
}

Messages::Sent Messages::send_now(Group& group, int dest, const SmallMessage& message, bool waits) {
  if (dest == group.rank) return Sent::not_begun;
  Flow& flow = group.flows.to(dest);
  if (!undisturbed(group, flow)) return Sent::not_begun;
  // An earlier message has not left yet.
  if (!flow.unsent.empty() || group.sends_held_up > 0) return Sent::not_begun;
  // What is given out to a far peer has an operation that takes it back.
  if (message.bytes >= flow.least_got) return flow.far != nullptr ? Sent::not_begun : request_now(flow, message, waits);
  return flow.route->send_small(flow, message);
}

void Messages::go_on_sending(Operation& operation, Sent sent) {
  Group& group = *operation.group;
  Flow& flow = group.flows.to(operation.peer);
  operation.number = group.next_number++;
  operation.state = Operation::State::active;
  operation.bytes = operation.count * operation.element_bytes;
  ++activity_.unfinished;
  note_begin(operation);
  if (sent == Sent::requested) return flow.requested.push(&operation);
  flow.unsent.push(&operation);
  flow.route->go_on_sending(operation);
}

bool Messages::receive_now(Group& group, int source, SmallReceive& wanted) {
  // Operations in flight need their turns; receives and probes that were posted earlier come first.
  if (source == group.rank || activity_.unfinished > 0) return false;
  Flow& flow = group.flows.to(source);
  if (!undisturbed(group, flow)) return false;
  if (group.messages.is_awaited()) return false;
  driver_.stop_sleeping();
  const Pattern pattern{source, wanted.tag};
  if (const Unexpected* const found = group.messages.find(pattern)) {
    if (found->eager == nullptr || !wanted.takes(found->tag, found->dtype, found->bytes)) return false;
    const Unexpected message = *group.messages.take(pattern);
    if (message.bytes > 0) std::memcpy(wanted.into, message.eager->payload.data(), message.bytes);
    frames_.give_back(message.eager);
    flow.credit.eager.no_longer_keeps(message.bytes);
    return took_now(flow, wanted);
  }
  Route& way = *flow.route;
  const bool polls_socket = way.endpoint() != nullptr && way.endpoint()->descriptor() >= 0;
  int turns = driver_.spins() / (polls_socket ? progress::kSocketTurns : 1);
  for (int turn = 0; turn <= turns; ++turn) {
    const Route::Arrived arrived = way.take_small(flow, wanted);
    const bool came = arrived == Route::Arrived::message || arrived == Route::Arrived::rts;
    if (came && turn > 0) driver_.message_patience().rewarded();
    if (arrived == Route::Arrived::message) return took_now(flow, wanted);
    if (arrived == Route::Arrived::rts) return get_at_once(flow, wanted);
    if (arrived == Route::Arrived::something_else) return false;
    // The peer's message may depend on one that the other thread is about to send.
    if (driver_.is_lock_wanted()) return false;
    if (turn == 0 && turns == 0 && !polls_socket) turns = driver_.message_patience().turns(group.rank < source);
    pause_processor();
  }
  driver_.note_spun();
  return false;
}

// Returns the credit of a message that its receive has taken.
bool Messages::took_now(Flow& flow, const SmallReceive& taken) {
  parts_.kept.consumed_small(flow, taken.bytes);
  if (flow.route->has_work()) routes_.push_or_watch(*flow.route);
  return true;
}

// Sends the RTS of a message that the peer may get, or else the message.
Messages::Sent Messages::request_now(Flow& flow, const SmallMessage& message, bool waits) {
  Route& way = *flow.route;
  const transport::RemoteAddress at = gets_.address_to_tell(flow, message.payload, message.bytes);
  const Sent sent = at ? way.send_rts(flow, message, at) : way.send_small(flow, message);
  if (sent != Sent::not_begun) gets_.note_going(flow, message.bytes, bool(at));
  if (sent != Sent::requested || !waits || activity_.unfinished > 0) return sent;
  driver_.stop_sleeping();
  int turns = driver_.spins();
  // A longer copy, or one by system call, takes more time than a hand-over of the processor.
  const bool is_short = message.bytes <= kMostEagerBytes && at.key != 0;
  if (turns == 0 && is_short) turns = driver_.message_patience().turns(flow.group->rank < flow.peer);
  for (int turn = 0; turn < turns; ++turn) {
    const Route::Arrived arrived = way.take_cts(flow);
    if (arrived == Route::Arrived::message) {
      driver_.message_patience().rewarded();
      ++flow.group->next_number;
      return Sent::complete;
    }
    if (arrived != Route::Arrived::nothing || driver_.is_lock_wanted()) return sent;
    pause_processor();
  }
  driver_.note_spun();
  return sent;
}

// False: nothing has happened, except that the key may have been requested.
bool Messages::get_at_once(Flow& flow, SmallReceive& wanted) {
  Route& way = *flow.route;
  const transport::FrameHeader rts = way.rts();
  const auto bytes = std::size_t(rts.argument);
  SmallReceive taken = wanted;
  if (!taken.takes(static_cast<int>(rts.tag), rts.flags, bytes)) return false;
  if (!gets_.get_now(flow, way.rts_address(), wanted.into, bytes)) return false;
  way.pass_rts();
  wanted = taken;
  send_cts(flow, rts.sequence, 0, Answer::done);
  routes_.push_or_watch(way);
  return true;
}

}  // namespace anello::executor
