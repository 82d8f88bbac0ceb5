// Context: messages of send that lie in memory that the receiver can map. Their sender offers them, with where they lie, and
// the receiver that has mapped that memory takes them from there: one copy, where the ring costs two. Who has not mapped it yet asks
// for it, and has the message sent like any announced one. A send that was offered is complete once the receiver has
// answered; one that ends with an error before that takes the offer back, and a copy made since then counts for nothing.
#include "control/transport_kind.h"
#include "base/clock.h"
#include "base/processor.h"
#include "executor/context.h"

#include <cstring>

namespace anello::executor {
namespace {

// In a row. The first after a while may be slow because nobody has rewritten its lines since, and is fast from then on.
constexpr std::uint32_t kSlowOffers = 2;

}  // namespace

// From how many bytes on this rank offers messages to the peer.
std::size_t Context::least_offered(const Group& group, int peer) const {
  const std::uint32_t bit = job_->members()[std::size_t(group.ranks[std::size_t(peer)])].transport;
  if (!group.board || (control::joining(control::Joins::host) & bit) == 0) return SIZE_MAX;
  return budget_.spins > 0 ? kLeastOffered : kLeastOfferedShared;
}

OfferedPlace Context::place_in_region(const std::byte* payload, std::size_t bytes) {
  const transport::RegionSpot spot = regions_.own(payload, bytes);
  const OfferedPlace place{spot.region, spot.offset, bytes};
  return place.fits_a_header() ? place : OfferedPlace{};
}

// Whether what the peer offers is rather sent; its next ones are then, too.
bool Context::finds_far(const Flow& flow, std::size_t bytes) const {
  return may_be_sent(bytes) && (staging_ == Nearness::Wish::always || flow.slow_offers >= kSlowOffers);
}

// Of such a size.
bool Context::may_be_sent(std::size_t bytes) const { return Nearness::concerns(bytes, budget_.spins > 0); }

// False: it has not been taken, and what `into` holds is nothing.
bool Context::take_from_region(Flow& flow, const OfferedPlace& place, std::byte* into) {
  Group& group = *flow.group;
  const int world = group.ranks[std::size_t(flow.peer)];
  if (finds_far(flow, place.bytes)) return false;
  if (!group.board || regions_.look_up(*job_, world, place.region) != RegionCache::State::mapped) return false;
  std::shared_ptr<transport::RegionMapping> kept;
  const std::byte* const from = regions_.at(place.region, place.offset, place.bytes, &kept);
  if (from == nullptr || !group.board.still_offers(flow.peer)) return false;
  constexpr std::uint32_t kTimed = 4;  // one in so many, and the one after a slow one
  const bool timed = staging_ == Nearness::Wish::by_time && may_be_sent(place.bytes) &&
                     (flow.slow_offers > 0 || flow.offers_read++ % kTimed == 0);
  const std::int64_t begin_ns = timed ? now_ns() : 0;
  std::memcpy(into, from, place.bytes);
  if (timed) {
    const bool slow = Nearness::is_far(static_cast<std::int64_t>(place.bytes), now_ns() - begin_ns);
    flow.slow_offers = slow ? flow.slow_offers + 1 : 0;
  }
  count_handled(place.bytes);
  // Else the sender's group has failed, and this one hears of it while it waits for the message.
  if (!group.board.still_offers(flow.peer)) return false;
  ++group.taken;
  return true;
}

// ---- The short way (short_messages.cpp) ----

// Of one that is long enough for it, wherever it lies.
Context::Sent Context::offer_now(Flow& flow, const SmallMessage& message, bool waits) {
  Route& way = *flow.route;
  const OfferedPlace place = place_to_offer(flow, message.payload, message.bytes);
  if (place.region == 0) return way.send_small(flow, message);
  const Sent sent = way.send_offer(flow, message, place);
  if (sent != Sent::offered || !waits || unfinished_ > 0) return sent;
  stay_awake();
  int turns = budget_.spins;
  // A copy of more takes longer than to hand the processor over.
  if (turns == 0 && message.bytes <= kMostEagerBytes) turns = patience_.turns(flow.group->rank < flow.peer);
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
  if (!taken.takes(static_cast<int>(offer.tag), offer.flags, place.bytes) || !take_from_region(flow, place, wanted.into)) return false;
  way.pass_offered();
  wanted = taken;
  grant(flow, offer.sequence, 0, Granted::over);
  push_or_owe(way);
  return true;
}

}  // namespace anello::executor
