// Messages: messages that the receiver gets from the sender's buffer (messaging/rendezvous.h). The RTS has the address,
// and the receiver copies the message out of memory that it has mapped, or reads it by system call: one copy, where the
// ring costs two. A receiver that has not mapped that memory yet requests it, and has the message sent like any other;
// so does a receiver that may not read the sender's process, or finds that a get takes longer (read_policy.h). A send
// whose address was told is complete once the receiver has answered; a send that ends with an error before that allows
// no more gets, and the receiver discards a copy that it finishes later.
#include "base/processor.h"
#include "executor/activity.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "memory/buffer.h"
#include "progress/driver.h"

#include <algorithm>
#include <utility>

namespace anello::executor {

// Whether the lane copies twice what a get copies once.
bool Messages::meets_on_host(const Group& group, int peer) const {
  const transport::RemoteMemory* const memory = routes_.memory_of(group, peer);
  return group.board && memory != nullptr && memory->spares_the_lane();
}

// This rank tells the peer the addresses of messages from this many bytes on.
std::size_t Messages::least_got(const Group& group, int peer) const {
  if (!meets_on_host(group, peer)) return SIZE_MAX;
  return driver_.spins() > 0 ? kLeastGet : kLeastGetShared;
}

std::size_t Messages::most_eager(const Group& group, int peer) const {
  return meets_on_host(group, peer) && sharing_ > 1 ? kMostEagerShared : kMostEagerBytes;
}

transport::RemoteAddress Messages::address_to_tell(const Flow& flow, const std::byte* payload, std::size_t bytes) {
  if (!flow.may_get(bytes) || is_not_wanted(flow, bytes)) return {};
  const transport::RemoteAddress at = transport::address_of(buffers_.find(payload, bytes));
  if (at.key != 0) return at;
  // A larger message goes through the ring, which keeps two processors busy.
  const bool may_be_read = flow.tells_addresses && staging_ != memory::ReadPolicy::Wish::always;
  if (!may_be_read || (driver_.spins() > 0 && !may_be_sent(bytes))) return {};
  return at;
}

bool Messages::is_not_wanted(const Flow& flow, std::size_t bytes) const {
  if (!may_be_sent(bytes)) return false;
  return staging_ == memory::ReadPolicy::Wish::always || flow.sent_instead[memory::ReadPolicy::index_of(bytes)] > 0;
}

void Messages::note_going(Flow& flow, std::size_t bytes, bool has_address) const {
  std::uint32_t& left = flow.sent_instead[memory::ReadPolicy::index_of(bytes)];
  if (!has_address && left > 0 && may_be_sent(bytes)) --left;
}

// Whether a message of this size is sent where that is faster.
bool Messages::may_be_sent(std::size_t bytes) const { return memory::ReadPolicy::concerns_message(bytes, sharing_); }

// The read policy's turn for the peer's next message. begins: its RTS is here.
memory::ReadPolicy::Turn Messages::turn_of(Flow& flow, std::size_t bytes, bool begins) const {
  if (flow.reading == nullptr || !may_be_sent(bytes) || staging_ == memory::ReadPolicy::Wish::never) return {};
  if (staging_ == memory::ReadPolicy::Wish::always) return {memory::ReadPolicy::Way::staged, false, false};
  return begins ? flow.reading->next(bytes) : flow.reading->peek(bytes);
}

// The answer to a sender whose message this rank does not get.
Messages::Refusal Messages::refusal(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes,
                                    memory::ReadPolicy::Turn turn) const {
  if (!at) return {Answer::send, 0};
  if (turn.way == memory::ReadPolicy::Way::read) {
    const bool closed =
        at.key == 0 && routes_.prepare(*flow.group, flow.peer, 0) == transport::RemoteMemory::State::refused;
    return {closed ? Answer::send_closed : Answer::send, 0};
  }
  // Measured messages come with an address, so that this rank could get them.
  if (turn.measured) return {Answer::send, 0};
  if (staging_ == memory::ReadPolicy::Wish::always) return {Answer::send_far, memory::ReadPolicy::kMostPause};
  const std::uint32_t calls = flow.reading->unmeasured(bytes);
  flow.reading->skip(bytes, calls);
  return {calls > 0 ? Answer::send_far : Answer::send, calls};
}

void Messages::stop_gets(Flow& flow, std::size_t bytes, std::uint32_t messages) {
  flow.sent_instead[memory::ReadPolicy::index_of(bytes)] = std::min(messages, memory::ReadPolicy::kMostPause);
}

// Whether this rank can get the peer's message: the key is ready, and the sender's group has not failed.
bool Messages::can_get(const Flow& flow, const transport::RemoteAddress& at) const {
  const Group& group = *flow.group;
  return group.board && routes_.prepare(group, flow.peer, at.key) == transport::RemoteMemory::State::ready &&
         group.board.allows_gets(flow.peer);
}

// Whether the copy counts. If not, the sender's group has failed, and this one hears of it while it waits for the
// message.
bool Messages::has_got(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes) const {
  Group& group = *flow.group;
  activity_.count_handled(bytes);
  if (!group.board.allows_gets(flow.peer)) return false;
  ++(at.key == 0 ? group.taken.read : group.taken.mapped);
  return true;
}

// Gets the message that the receive has taken: a short one at once, a long one in pieces between which other work has
// its turn. False: the message must be sent.
bool Messages::begin_get(Flow& flow, Operation& receive, const transport::RemoteAddress& at) {
  if (!can_get(flow, at)) return false;
  transport::RemoteMemory& memory = *routes_.memory_of(*flow.group, flow.peer);
  const transport::Transfer transfer{routes_.remote_peer(*flow.group, flow.peer), at, receive.output, receive.bytes,
                                     reinterpret_cast<std::uintptr_t>(&receive)};
  if (receive.bytes <= kMostGetAtOnce) {
    if (memory.get_now(transfer) != 0 || !has_got(flow, at, receive.bytes)) return false;
    send_cts(flow, receive.partner, receive.number, Answer::done);
    outcomes_.finish(receive);
    return true;
  }
  memory.get(transfer);
  receive.got_from = at;
  flow.group->getting.push(&receive);
  return true;
}

void Messages::got(const transport::Transferred& ended) {
  Operation& receive = *reinterpret_cast<Operation*>(ended.token);
  Flow& flow = receive.group->flows.to(receive.peer);
  flow.group->getting.remove(&receive);
  ++receive.movement;
  if (ended.error != 0 || !has_got(flow, receive.got_from, receive.bytes))
    return have_it_sent(flow, receive, Answer::send, 0);
  send_cts(flow, receive.partner, receive.number, Answer::done);
  outcomes_.finish(receive);
}

// Moves the pending transfers of all remote memories. A piece that this rank's processor moves goes without the lock:
// other threads post meanwhile.
bool Messages::move_transfers() {
  bool moved = false;
  for (transport::RemoteMemory* const memory : routes_.memories()) {
    if (!memory->is_pending()) continue;
    if (memory->begin_work()) {
      driver_.without_lock([memory] { memory->work(); });
      moved = true;
    }
    while (const std::optional<transport::Transferred> ended = memory->poll()) {
      got(*ended);
      moved = true;
    }
  }
  return moved;
}

// ---- The fast path (fast_messages.cpp) ----

// Sends the RTS of a message that the peer may get, or else the message.
Messages::Sent Messages::request_now(Flow& flow, const SmallMessage& message, bool waits) {
  Route& way = *flow.route;
  const transport::RemoteAddress at = address_to_tell(flow, message.payload, message.bytes);
  const Sent sent = at ? way.send_rts(flow, message, at) : way.send_small(flow, message);
  if (sent != Sent::not_begun) note_going(flow, message.bytes, bool(at));
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
  const transport::RemoteAddress at = way.rts_address();
  const auto bytes = std::size_t(rts.argument);
  SmallReceive taken = wanted;
  if (!at || bytes > kMostGetAtOnce || !taken.takes(static_cast<int>(rts.tag), rts.flags, bytes)) return false;
  // A message that is not got is counted where it is answered (messages.cpp).
  if (turn_of(flow, bytes, false).way != memory::ReadPolicy::Way::read || !can_get(flow, at)) return false;
  turn_of(flow, bytes, true);
  transport::RemoteMemory& memory = *routes_.memory_of(*flow.group, flow.peer);
  if (memory.get_now({routes_.remote_peer(*flow.group, flow.peer), at, wanted.into, bytes, 0}) != 0 ||
      !has_got(flow, at, bytes))
    return false;
  way.pass_rts();
  wanted = taken;
  send_cts(flow, rts.sequence, 0, Answer::done);
  routes_.push_or_watch(way);
  return true;
}

}  // namespace anello::executor
