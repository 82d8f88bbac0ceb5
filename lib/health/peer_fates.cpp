#include "health/peer_fates.h"

#include "base/clock.h"

#include <algorithm>
#include <utility>

namespace anello::health {
namespace {

// A broken lane is mostly the first sign of a death, or of a rank that leaves in the middle of an operation that has
// failed there. Control has better information a moment later, unless the rank that forwards it does not run.
constexpr std::int64_t kWordFromControl = 500 * kMs;
// The time for a socket's lane to end, or to bring more data, after control has reported its rank as lost. For a
// vanished host, neither happens.
constexpr std::int64_t kEndOfLane = 2000 * kMs;
// The interval between two checks of a running process.
constexpr std::int64_t kStopped = 500 * kMs;

}  // namespace

PeerFates::PeerFates(int ranks)
    : fates_(static_cast<std::size_t>(ranks), Fate::here), left_at_(static_cast<std::size_t>(ranks), 0) {}

void PeerFates::note_loss(int peer, const std::string& how, bool found_here, bool for_certain, std::int64_t now) {
  Fate& fate = fates_[static_cast<std::size_t>(peer)];
  if (fate == Fate::left) return;  // this is why there is no connection to it
  fate = Fate::lost;
  trouble_ = true;
  const Loss as_reported{how, found_here, false, 0, now, losses_.size()};
  Loss& loss = losses_.try_emplace(peer, as_reported).first->second;
  loss.for_certain = loss.for_certain || for_certain;
}

void PeerFates::note_leaving(int peer, std::int64_t now) {
  trouble_ = true;
  if (!is_here(peer)) return;
  fates_[static_cast<std::size_t>(peer)] = Fate::left;
  left_at_[static_cast<std::size_t>(peer)] = now;
}

void PeerFates::note_lane(int peer) {
  const auto loss = losses_.find(peer);
  if (loss == losses_.end() || !loss->second.found_here) return;
  losses_.erase(loss);
  fates_[static_cast<std::size_t>(peer)] = Fate::here;
}

int PeerFates::first_here() const {
  return static_cast<int>(std::find(fates_.begin(), fates_.end(), Fate::here) - fates_.begin());
}

// A process that was stopped has read nothing meanwhile.
bool PeerFates::begin_look(std::int64_t now) { return now - std::exchange(looked_at_, now) > kStopped; }

void PeerFates::look_at(Loss& loss, PeerLane* lane, bool was_stopped, std::int64_t now) {
  const std::uint64_t came = lane != nullptr ? lane->came() : 0;
  if (std::exchange(loss.came, came) != came || was_stopped) loss.quiet_since = now;
  // Data that a process wrote to shared memory became visible before its end did.
  if (lane != nullptr && lane->is_open() && !lane->is_socket() && !lane->has_arrivals()) lane->break_off();
}

bool PeerFates::is_gone(int peer, PeerLane* lane, const Signs& signs, std::int64_t now, std::string& how) const {
  const std::int64_t long_ago = now - kWordFromControl;
  const bool is_open = lane != nullptr && lane->is_open();
  if (const Loss* const loss = loss_of(peer)) {
    how = loss->how;
    if (loss->for_certain) return true;
    // An open lane still has data, or its end is in flight.
    return !is_open || (lane->is_socket() && loss->quiet_since < now - kEndOfLane);
  }
  // A peer that hears nothing from this rank treats it as lost first, and leaves: its message overtakes control's.
  if (signs.left_communicator_at != 0 && signs.left_communicator_at < long_ago && !signs.host_is_silent) {
    how = "destroyed this communicator";
    return true;
  }
  if (of(peer) == Fate::left && left_at_[static_cast<std::size_t>(peer)] < long_ago) {
    // Its earlier data may still be in flight in a socket; the end of the lane shows that everything has arrived.
    // In shared memory all of it has already arrived, though it may not have been read.
    if (is_open && (lane->is_socket() || lane->has_arrivals())) return false;
    how = "left the job";
    return true;
  }
  // A rank that ends while another member is lost has seen that loss. Control's message, which may be lost with the
  // rank, would say the same.
  const bool had_its_time = lane != nullptr && lane->broken_since_ns() < long_ago && !signs.host_is_silent;
  if (lane != nullptr && lane->is_broken() && (had_its_time || signs.another_is_lost)) {
    const std::string trouble = lane->trouble();
    how = trouble.empty() ? "closed its connection" : "cannot be reached any more: " + trouble;
    return true;
  }
  return false;
}

}  // namespace anello::health
