#include "memory/read_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace anello::memory {
namespace {

// A trial comes at least once in this many bytes, so changes for larger buffers are found out after fewer calls.
constexpr std::size_t kMostBetween = 1024 * 1024 * 1024;
// The first calls of a trial are not measured: their memory is in no cache yet, and some ranks may not have followed
// yet. Longer pauses leave time for more of them.
constexpr std::uint32_t kUnmeasured = 2;
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

void ReadPolicy::stagger(std::uint32_t by) {
  // kApart covers a trial and the calls it is compared with. It does not depend on the pause, so ranks' trials
  // coincide.
  constexpr std::uint32_t kApart = 24, kPlaces = 4;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    sizes_[i].offset = (static_cast<std::uint32_t>(i) + by) % kPlaces * kApart;
    sizes_[i].trial_at = kFirstPause + sizes_[i].offset;
  }
}

std::uint32_t ReadPolicy::Size::length() const { return std::max(kUnmeasured + kMeasured, pause / kLengthOfPause); }

ReadPolicy::Turn ReadPolicy::Size::turn(bool judges) const {
  const bool trial = ahead() <= 0 && (judges || kept == Way::staged);
  const bool measured = judges && (trial || (ahead() > 0 && ahead() <= std::int32_t(kMeasured)));
  return {trial ? other(kept) : kept, measured, trial};
}

// Never sets a trial so early that too few calls come before it.
void ReadPolicy::Size::keep(Way way, std::uint32_t next_pause) {
  kept = way;
  pause = next_pause;
  const std::uint32_t least = std::max(calls + kMeasured, offset) - offset;
  trial_at = (least / pause + 1) * pause + offset;
  began_ns = kept_ns = kUnknown;
}

void ReadPolicy::Size::settle(std::size_t bytes, bool judges, Clock now) {
  if (judges) {
    const bool measured = began_ns != kUnknown && kept_ns != kUnknown;
    const bool changes = measured && now() - began_ns < kept_ns - kept_ns / 8;
    const bool goes_back = changes && kept == Way::staged;
    if (changes)
      keep(other(kept), std::max(pause / 2, kFirstPause));  // ways that hardly differ are not tried forever
    else
      keep(kept, std::min(2 * pause, longest_pause(bytes)));
    if (goes_back) settled_at = calls;
  } else if (kept == Way::staged) {
    // Ranks that judge stage again at once if they still want to (follow).
    kept = Way::read;
    settled_at = calls;
  }
}

ReadPolicy::Turn ReadPolicy::next(std::size_t bytes, bool judges, Clock now) {
  Size& size = of(bytes);
  ++size.calls;
  const std::int32_t ahead = size.ahead(), length = static_cast<std::int32_t>(size.length());
  if (ahead <= -length) {
    size.settle(bytes, judges, now);
  } else if (judges && ahead == std::int32_t(kMeasured)) {
    size.began_ns = now();
  } else if (judges && ahead == 0) {
    if (size.began_ns != kUnknown) size.kept_ns = now() - std::exchange(size.began_ns, kUnknown);
  } else if (judges && ahead == std::int32_t(kMeasured) - length) {
    size.began_ns = now();
  }
  return size.turn(judges);
}

ReadPolicy::Turn ReadPolicy::peek(std::size_t bytes, bool judges) const {
  Size size = of(bytes);
  ++size.calls;
  return size.turn(judges);
}

void ReadPolicy::follow(std::size_t bytes) {
  Size& size = of(bytes);
  if (size.kept == Way::staged) return;
  const bool as_before = size.settled_at != 0 && size.calls - size.settled_at <= kUnmeasured;
  size.keep(Way::staged, as_before ? std::min(2 * size.pause, longest_pause(bytes)) : kFirstPause);
}

std::uint32_t ReadPolicy::unmeasured(std::size_t bytes) const {
  const std::int32_t calls = of(bytes).ahead() - std::int32_t(kMeasured) - 1;
  return calls > 0 ? static_cast<std::uint32_t>(calls) : 0;
}

}  // namespace anello::memory
