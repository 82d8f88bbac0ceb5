// Context: messages of send that the receiver can take from where they lie. Their sender offers them, with their place,
// and the receiver copies them out of memory that it has mapped, or reads them by system call: one copy, where the ring
// costs two. Who has not mapped that memory yet asks for it, and has the message sent like any announced one, as has
// who may not read the sender's process, and who finds that this takes longer (nearness.h). A send that was offered is
// complete once the receiver has answered; one that ends with an error before that takes the offer back, and a copy
// made since then counts for nothing.
#include "control/transport_kind.h"
#include "base/clock.h"
#include "base/processor.h"
#include "executor/context.h"
#include "transports/process_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::executor {

bool Context::meets_on_host(const Group& group, int peer) const {
  const std::uint32_t bit = job_->members()[std::size_t(group.ranks[std::size_t(peer)])].transport;
  return group.board && (control::joining(control::Joins::host) & bit) != 0;
}

// From how many bytes on this rank offers messages to the peer.
std::size_t Context::least_offered(const Group& group, int peer) const {
  if (!meets_on_host(group, peer)) return SIZE_MAX;
  return budget_.spins > 0 ? kLeastOffered : kLeastOfferedShared;
}

std::size_t Context::most_eager(const Group& group, int peer) const {
  return meets_on_host(group, peer) && sharing_ > 1 ? kMostEagerShared : kMostEagerBytes;
}

OfferedPlace Context::place_of(const Flow& flow, const std::byte* payload, std::size_t bytes) {
  if (is_not_wanted(flow, bytes)) return {};
  const transport::RegionSpot spot = regions_.own(payload, bytes);
  const OfferedPlace place{spot.region, spot.offset, bytes};
  if (spot.region != 0) return place.fits_a_header() ? place : OfferedPlace{};
  // Larger ones keep two processors busy by the ring.
  const bool may_be_read = flow.offers_at && staging_ != Nearness::Wish::always;
  if (!may_be_read || (budget_.spins > 0 && !may_be_sent(bytes))) return {};
  return {OfferedPlace::kProcess, reinterpret_cast<std::uintptr_t>(payload), bytes};
}

bool Context::is_not_wanted(const Flow& flow, std::size_t bytes) const {
  return may_be_sent(bytes) && (flow.unwanted > 0 || staging_ == Nearness::Wish::always);
}

// One of a size that may be offered goes, with its place or as it is.
void Context::note_going(Flow& flow, std::size_t bytes, bool offered) {
  const bool due = flow.size_run.is_due(bytes);
  if (offered) ++flow.offered;
  if (offered || flow.unwanted == 0 || !may_be_sent(bytes)) return;
  if (due) {
    flow.unwanted = 0;
    flow.size_run.looked_at();
  } else {
    // Smaller ones may have set a pause that is too long for this one.
    flow.unwanted = std::min(flow.unwanted, static_cast<std::uint32_t>(Nearness::longest_pause(bytes))) - 1;
  }
}

// Whether one of such a size is sent where that is faster.
bool Context::may_be_sent(std::size_t bytes) const { return Nearness::concerns_message(bytes, sharing_); }

// Whether what the peer offers is rather sent; its next ones are then, too.
bool Context::finds_far(const Flow& flow, std::size_t bytes) const {
  return may_be_sent(bytes) && (staging_ == Nearness::Wish::always || flow.slow_offers >= Nearness::kSlow);
}

// What to say to who has offered what is not taken.
Granted Context::refusal(Flow& flow, const OfferedPlace& place) {
  if (place.region == 0) return Granted::comes;
  if (finds_far(flow, place.bytes)) {
    flow.slow_offers = 0;
    flow.offers_anew = true;
    return Granted::far;
  }
  const bool by_call = place.region == OfferedPlace::kProcess;
  return by_call && !can_read_process(flow.group->ranks[std::size_t(flow.peer)]) ? Granted::unreadable : Granted::comes;
}

void Context::stop_offering(Flow& flow, std::size_t bytes) const {
  if (flow.unwanted > 0) return;  // of one that was offered before the peer found that
  const std::uint32_t offered = std::exchange(flow.offered, 0);
  const bool as_before = flow.pause > 0 && offered <= Nearness::cold_calls(bytes, sharing_ == 1) + Nearness::kSlow +
                                                          1;  // and the one that was refused
  if (!as_before) flow.size_run.found_near();                 // until now
  flow.size_run.found_far(bytes);
  flow.unwanted = flow.pause = static_cast<std::uint32_t>(Nearness::pause(bytes, as_before, flow.pause));
}

// False: it cannot be had there.
bool Context::copy_offered(Flow& flow, const OfferedPlace& place, std::byte* into) {
  const int world = flow.group->ranks[std::size_t(flow.peer)];
  if (place.region == OfferedPlace::kProcess) {
    return can_read_process(world) && transport::read_process(sample_of(world), place.offset, into, place.bytes) == 0;
  }
  std::shared_ptr<transport::RegionMapping> kept;
  const std::byte* const from = regions_.at(place.region, place.offset, place.bytes, &kept);
  if (from == nullptr) return false;
  std::memcpy(into, from, place.bytes);
  return true;
}

// False: it has not been taken, and what `into` holds is nothing.
bool Context::take_offered(Flow& flow, const OfferedPlace& place, std::byte* into) {
  Group& group = *flow.group;
  const int world = group.ranks[std::size_t(flow.peer)];
  if (finds_far(flow, place.bytes) || !group.board) return false;
  const bool by_call = place.region == OfferedPlace::kProcess;
  if (!by_call && regions_.look_up(*job_, world, place.region) != RegionCache::State::mapped) return false;
  if (!group.board.still_offers(flow.peer)) return false;
  if (std::exchange(flow.offers_anew, false)) {
    flow.offers_read = Nearness::kTimed + 1 - Nearness::cold_calls(place.bytes, sharing_ == 1);
  }
  const bool timed = staging_ == Nearness::Wish::by_time && may_be_sent(place.bytes) &&
                     (flow.slow_offers > 0 || flow.offers_read++ % Nearness::kTimed == 1);
  const auto by = by_call ? Nearness::By::call_alone : Nearness::By::load;
  const auto time = Nearness::clock(by, sharing_ > 1);
  const std::int64_t begin_ns = timed ? time() : 0;
  if (!copy_offered(flow, place, into)) return false;
  if (timed) {
    const bool slow = time() - begin_ns > Nearness::near_ns(place.bytes, by);
    flow.slow_offers = slow ? flow.slow_offers + 1 : 0;
  }
  count_handled(place.bytes);
  // Else the sender's group has failed, and this one hears of it while it waits for the message.
  if (!group.board.still_offers(flow.peer)) return false;
  ++(by_call ? group.taken.read : group.taken.mapped);
  return true;
}

// ---- The short way (short_messages.cpp) ----

// Of one that is long enough for it, wherever it lies.
Context::Sent Context::offer_now(Flow& flow, const SmallMessage& message, bool waits) {
  Route& way = *flow.route;
  const OfferedPlace place = place_to_offer(flow, message.payload, message.bytes);
  const bool offers = place.region != 0;
  const Sent sent = offers ? way.send_offer(flow, message, place) : way.send_small(flow, message);
  if (sent != Sent::not_begun) note_going(flow, message.bytes, offers);
  if (sent != Sent::offered || !waits || unfinished_ > 0) return sent;
  stay_awake();
  int turns = budget_.spins;
  // A copy of more, or by system call, takes longer than to hand the processor over.
  const bool is_short = message.bytes <= kMostEagerBytes && place.region != OfferedPlace::kProcess;
  if (turns == 0 && is_short) turns = patience_.turns(flow.group->rank < flow.peer);
  for (int turn = 0; turn < turns; ++turn) {
    const Route::Arrived arrived = way.take_answer(flow);
    if (arrived == Route::Arrived::message) {
      patience_.rewarded();
      ++flow.group->next_number;
      return Sent::complete;
    }
    if (arrived != Route::Arrived::nothing || contenders_.load(std::memory_order_relaxed) > 0) return sent;
    pause_processor();
  }
  spun_ = true;
  return sent;
}

// False: nothing has happened, but that the region may have been asked for.
bool Context::take_offer_now(Flow& flow, SmallReceive& wanted) {
  Route& way = *flow.route;
  const transport::FrameHeader offer = way.offered();
  const OfferedPlace place = told_place(offer);
  SmallReceive taken = wanted;
  if (!taken.takes(static_cast<int>(offer.tag), offer.flags, place.bytes) || !take_offered(flow, place, wanted.into))
    return false;
  way.pass_offered();
  wanted = taken;
  grant(flow, offer.sequence, 0, Granted::over);
  push_or_owe(way);
  return true;
}

}  // namespace anello::executor
