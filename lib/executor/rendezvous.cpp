// Context: messages of send that the receiver gets from where they lie (messaging/rendezvous.h). Their RTS says the
// place, and the receiver copies them out of memory that it has mapped, or reads them by system call: one copy, where
// the ring costs two. A receiver that has not mapped that memory yet asks for it, and has the message sent like any
// other; so does one that may not read the sender's process, and one that finds that getting takes longer
// (read_policy.h). A send whose place was told is complete once the receiver has answered; one that ends with an error
// before that allows no gets any more, and a copy made since then counts for nothing.
#include "control/transport_kind.h"
#include "base/processor.h"
#include "executor/context.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::executor {

bool Context::meets_on_host(const Group& group, int peer) const {
  const std::uint32_t bit = job_->members()[std::size_t(group.ranks[std::size_t(peer)])].transport;
  return group.board && (control::joining(control::Joins::host) & bit) != 0;
}

// From how many bytes on this rank tells the peer where its messages lie.
std::size_t Context::least_got(const Group& group, int peer) const {
  if (!meets_on_host(group, peer)) return SIZE_MAX;
  return driver_.spins() > 0 ? kLeastGet : kLeastGetShared;
}

std::size_t Context::most_eager(const Group& group, int peer) const {
  return meets_on_host(group, peer) && sharing_ > 1 ? kMostEagerShared : kMostEagerBytes;
}

RemotePlace Context::place_of(const Flow& flow, const std::byte* payload, std::size_t bytes) {
  if (is_not_wanted(flow, bytes)) return {};
  const memory::RegionSpot spot = peer_memory_.own(payload, bytes);
  if (spot.region != 0) {
    const RemotePlace place = RemotePlace::in_region(spot.region, spot.offset, bytes);
    return place.fits_a_header() ? place : RemotePlace{};
  }
  // Larger ones keep two processors busy by the ring.
  const bool may_be_read = flow.tells_addresses && staging_ != memory::ReadPolicy::Wish::always;
  if (!may_be_read || (driver_.spins() > 0 && !may_be_sent(bytes))) return {};
  return RemotePlace::in_process(reinterpret_cast<std::uintptr_t>(payload), bytes);
}

bool Context::is_not_wanted(const Flow& flow, std::size_t bytes) const {
  if (!may_be_sent(bytes)) return false;
  return staging_ == memory::ReadPolicy::Wish::always || flow.sent_instead[memory::ReadPolicy::index_of(bytes)] > 0;
}

// One of a size that the peer may get goes, with its place or as it is.
void Context::note_going(Flow& flow, std::size_t bytes, bool says_place) {
  std::uint32_t& left = flow.sent_instead[memory::ReadPolicy::index_of(bytes)];
  if (!says_place && left > 0 && may_be_sent(bytes)) --left;
}

// Whether one of such a size is sent where that is faster.
bool Context::may_be_sent(std::size_t bytes) const { return memory::ReadPolicy::concerns_message(bytes, sharing_); }

// What the policy says of the next one of the peer's; begins: its RTS is here.
memory::ReadPolicy::Turn Context::turn_of(Flow& flow, std::size_t bytes, bool begins) const {
  if (flow.reading == nullptr || !may_be_sent(bytes) || staging_ == memory::ReadPolicy::Wish::never) return {};
  if (staging_ == memory::ReadPolicy::Wish::always) return {memory::ReadPolicy::Way::staged, false, false};
  return begins ? flow.reading->next(bytes) : flow.reading->peek(bytes);
}

// What to say to a sender whose message is not taken from where it lies.
Context::Refusal Context::refusal(Flow& flow, const RemotePlace& place, memory::ReadPolicy::Turn turn) {
  if (!place.is_known()) return {Answer::send, 0};
  if (turn.way == memory::ReadPolicy::Way::read) {
    const bool by_call = place.in == RemotePlace::In::process;
    const bool readable = !by_call || peer_memory_.can_read(flow.group->ranks[std::size_t(flow.peer)]);
    return {readable ? Answer::send : Answer::send_closed, 0};
  }
  // Those that are measured say their place, so that this rank could have got them.
  if (turn.measured) return {Answer::send, 0};
  if (staging_ == memory::ReadPolicy::Wish::always) return {Answer::send_far, memory::ReadPolicy::kMostPause};
  const std::uint32_t calls = flow.reading->unmeasured(place.bytes);
  flow.reading->skip(place.bytes, calls);
  return {calls > 0 ? Answer::send_far : Answer::send, calls};
}

void Context::stop_gets(Flow& flow, std::size_t bytes, std::uint32_t messages) const {
  flow.sent_instead[memory::ReadPolicy::index_of(bytes)] = std::min(messages, memory::ReadPolicy::kMostPause);
}

// False: it has not been taken, and what `into` holds is nothing.
bool Context::get_message(Flow& flow, const RemotePlace& place, std::byte* into) {
  Group& group = *flow.group;
  const int world = group.ranks[std::size_t(flow.peer)];
  if (!group.board) return false;
  const bool by_call = place.in == RemotePlace::In::process;
  if (!by_call && peer_memory_.look_up(world, place.region) != memory::RegionCache::State::mapped) return false;
  if (!group.board.allows_gets(flow.peer)) return false;
  if (!peer_memory_.get(world, place, into)) return false;
  count_handled(place.bytes);
  // Else the sender's group has failed, and this one hears of it while it waits for the message.
  if (!group.board.allows_gets(flow.peer)) return false;
  ++(by_call ? group.taken.read : group.taken.mapped);
  return true;
}

// ---- The fast path (fast_messages.cpp) ----

// Of one that is long enough for it, wherever it lies.
Context::Sent Context::request_now(Flow& flow, const SmallMessage& message, bool waits) {
  Route& way = *flow.route;
  const RemotePlace place = place_to_tell(flow, message.payload, message.bytes);
  const bool says_place = place.is_known();
  const Sent sent = says_place ? way.send_rts(flow, message, place) : way.send_small(flow, message);
  if (sent != Sent::not_begun) note_going(flow, message.bytes, says_place);
  if (sent != Sent::requested || !waits || unfinished_ > 0) return sent;
  driver_.stop_sleeping();
  int turns = driver_.spins();
  // A copy of more, or by system call, takes longer than to hand the processor over.
  const bool is_short = message.bytes <= kMostEagerBytes && place.in != RemotePlace::In::process;
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

// False: nothing has happened, but that the region may have been asked for.
bool Context::get_now(Flow& flow, SmallReceive& wanted) {
  Route& way = *flow.route;
  const transport::FrameHeader rts = way.rts();
  const RemotePlace place = RemotePlace::told(rts);
  SmallReceive taken = wanted;
  if (!taken.takes(static_cast<int>(rts.tag), rts.flags, place.bytes)) return false;
  // One that is not to be read is counted where it is answered (messages.cpp).
  if (turn_of(flow, place.bytes, false).way != memory::ReadPolicy::Way::read) return false;
  turn_of(flow, place.bytes, true);
  if (!get_message(flow, place, wanted.into)) return false;
  way.pass_rts();
  wanted = taken;
  send_cts(flow, rts.sequence, 0, Answer::done);
  push_or_watch(way);
  return true;
}

}  // namespace anello::executor
