#include "memory/read_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace anello::memory {
namespace {

// A trial comes at least once in so many bytes: what changes for larger buffers is found out after fewer of them.
constexpr std::size_t kMostBetween = 1024 * 1024 * 1024;
// The first calls of a trial are not measured: their memory is in no cache yet, and not all ranks may have followed. In
// a longer pause there is time for more of them.
constexpr std::uint32_t kUntimed = 2;
constexpr std::uint32_t kLengthOfPause = 64;

using Way = ReadPolicy::Way;

Way other(Way way) { return way == Way::read ? Way::staged : Way::read; }

std::uint32_t longest_pause(std::size_t bytes) {
  const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(kMostBetween / bytes, ReadPolicy::kMostPause));
  return std::max(std::bit_floor(most), ReadPolicy::kFirstPause);
}

}  // namespace

std::size_t ReadPolicy::index_of(std::size_t bytes) {
  return std::min(static_cast<std::size_t>(std::bit_width(bytes / kLeastOfTwo)), kSizes - 1);
}

std::uint32_t ReadPolicy::Size::length() const { return std::max(kUntimed + kMeasured, pause / kLengthOfPause); }

// Wraps, so the difference is compared.
ReadPolicy::Turn ReadPolicy::Size::turn(bool judges) const {
  const auto ahead = static_cast<std::int32_t>(trial_at - calls);
  const bool trial = ahead <= 0 && (judges || kept == Way::staged);
  const auto left = static_cast<std::int32_t>(length()) + ahead;  // of the trial, with this one
  const bool timed = judges && (trial ? left <= std::int32_t(kMeasured) : ahead <= std::int32_t(kMeasured));
  return {trial ? other(kept) : kept, timed, trial};
}

void ReadPolicy::Size::keep(Way way, std::uint32_t next_pause) {
  kept = way;
  pause = next_pause;
  trial_at = (calls / pause + 1) * pause;
}

void ReadPolicy::Size::settle(std::size_t bytes, bool judges) {
  const std::uint32_t longer = std::min(2 * pause, longest_pause(bytes));
  if (judges) {
    const std::int64_t now = ns[std::size_t(kept)], then = ns[std::size_t(other(kept))];
    const bool changes = now != kUnknown && then < now - now / 8;
    const bool goes_back = changes && kept == Way::staged;
    if (changes)
      keep(other(kept), kFirstPause);
    else
      keep(kept, longer);
    if (goes_back) settled_at = calls;
  } else if (kept == Way::staged) {
    // Those that judge stage again at once if they have not changed their mind (follow).
    kept = Way::read;
    settled_at = calls;
  }
}

ReadPolicy::Turn ReadPolicy::next(std::size_t bytes, bool judges) {
  Size& size = of(bytes);
  ++size.calls;
  const auto ahead = static_cast<std::int32_t>(size.trial_at - size.calls);
  if (ahead <= -static_cast<std::int32_t>(size.length())) size.settle(bytes, judges);
  if (static_cast<std::int32_t>(size.trial_at - size.calls) == static_cast<std::int32_t>(kMeasured))
    size.ns[0] = size.ns[1] = kUnknown;
  return size.turn(judges);
}

ReadPolicy::Turn ReadPolicy::peek(std::size_t bytes, bool judges) const {
  ReadPolicy copy = *this;
  return copy.next(bytes, judges);
}

void ReadPolicy::ended(std::size_t bytes, Way way, std::int64_t ns) {
  std::int64_t& least = of(bytes).ns[std::size_t(way)];
  least = std::min(least, ns);
}

void ReadPolicy::follow(std::size_t bytes) {
  Size& size = of(bytes);
  if (size.kept == Way::staged) return;
  const bool as_before = size.settled_at != 0 && size.calls - size.settled_at <= kUntimed;
  size.keep(Way::staged, as_before ? std::min(2 * size.pause, longest_pause(bytes)) : kFirstPause);
}

std::uint32_t ReadPolicy::untimed(std::size_t bytes) const {
  const Size& size = of(bytes);
  const auto ahead = static_cast<std::int32_t>(size.trial_at - size.calls) - static_cast<std::int32_t>(kMeasured) - 1;
  return ahead > 0 ? static_cast<std::uint32_t>(ahead) : 0;
}

}  // namespace anello::memory
