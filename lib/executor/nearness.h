#pragma once
// Whether ranks read each other's memory where it lies, or stage it. Where two processors share no cache (and a virtual
// machine's processors may change from second to second), a line comes slowly after its owner has written it, and the
// owner waits again, outside the call, when it writes the line anew. A caller that rewrites its buffer before each call
// is then better off with a copy past the caches; one that does not is better off with reading, since the reader's
// cache still has the lines. So reading is timed now and then, and the calls after slow ones are staged. Staging may be
// slower still: three of those calls are timed as a whole, and unless the fastest took an eighth less than a call that
// read, ranks go back to reading, for longer each time.
#include "base/clock.h"
#include "executor/frame.h"
#include "executor/size_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace anello::executor {

// Of one communicator's calls of one kind. Ranks make the same calls, so that they look again at the same ones.
class Nearness {
 public:
  enum class Wish : std::uint8_t { by_time, never, always };  // to stage
  enum class Way : std::uint8_t { read, read_timed, staged, staged_timed };
  // How others' memory is read: by loads, or by system call, which costs something by itself, and is faster while
  // nobody else does so.
  enum class By : std::uint8_t { load, call, call_alone };

  // A call begins over buffers of so many bytes that others could read; from_one: one rank's alone. How it goes as far
  // as this rank is asked.
  Way way(std::size_t bytes, int ranks, Wish wish, bool from_one = false) {
    if (!concerns(bytes, ranks, from_one)) return Way::read;
    if (wish != Wish::by_time) return wish == Wish::always ? Way::staged : Way::read;
    ++calls_;
    bytes_ = bytes;
    alone_ = ranks == 2;
    is_large_ = is_large(bytes);
    judge(bytes);
    const bool due = size_run_.is_due(bytes);
    // Smaller calls may have set a pause that is too long for this one.
    if (is_far_ && calls_ < look_at_ && calls_ % longest_pause(bytes) != 0 && !due) return staged_way(bytes);
    if (is_far_) {
      is_far_ = false;
      if (due) size_run_.looked_at();
      looked_at_ = calls_;
      cold_ = cold_calls(bytes, alone_);
      slow_ = 1;
    }
    if (cold_ > 0) {
      --cold_;
      return Way::read;
    }
    return calls_ % kTimed == 0 || (slow_ > 0 && !trust_of(bytes).holds(calls_)) ? Way::read_timed : Way::read;
  }
  // Lines that nobody has rewritten come slowly the first time, since the other way has left them alone, and where they
  // are more than half of the nearer cache also the next; where ranks share a cache, what they have staged leaves it
  // slowly.
  static std::uint32_t cold_calls(std::size_t bytes, bool alone = true) {
    return !is_large(bytes, alone) ? 1 : alone ? kMostCold : kMostColdShared;
  }
  // Whether anything of such a size is staged for this.
  static bool concerns(std::size_t bytes, int ranks, bool from_one) {
    return bytes >= (ranks == 2 ? kLeastOfTwo : kLeast) && bytes <= (ranks == 2 || from_one ? kMostOfOne : kMost);
  }
  // The same of a message, where so many ranks share a processor. What is sent in place of being read costs them no
  // more hand-overs up to kMostEagerShared; of many the buffers alone are more than a cache has room for, and near
  // takes as long as far.
  static bool concerns_message(std::size_t bytes, int sharing) {
    if (sharing == 1) return bytes >= kLeastOfTwo && bytes <= kMostOfOne;
    return bytes >= kLeast && bytes <= (sharing == 2 ? kMostEagerShared : kMostEagerShared / 2);
  }
  // How long so many bytes may take from nearby; is_large: of a call that is, which By::call asks for.
  static std::int64_t near_ns(std::size_t bytes, By by, bool is_large = false) {
    const auto all = static_cast<std::int64_t>(bytes);
    if (by == By::load) return kLoadNs + all / kLoaded;
    if (is_large && by == By::call) return kCallNs + all / kCalledLarge;
    return kCallNs + all / (bytes > kHuge ? kCalledHuge : kCalled);
  }
  // What tells how long. Where ranks share processors another one may have it in between, which counts for nothing; but
  // to ask for that is a system call itself.
  static auto clock(By by, bool shared) { return shared && by != By::load ? worked_ns : now_ns; }
  static bool is_large(std::size_t bytes, bool alone = true) { return bytes > (alone ? kLarge : kLargeShared); }

  // What a timed call has read, or a piece of it. Who reads nothing, as a broadcast's root, hears of it from those that
  // do.
  void took(std::size_t bytes, By by, std::int64_t ns) {
    read_ = true;
    over_ns_ += ns - near_ns(bytes, by, is_large_);
  }
  // Another rank has staged what this one would have read.
  void hear(std::size_t bytes) {
    if (!is_far_) find_far(bytes);
  }
  // A call that way() has called timed is complete, so long after it began; staged: what way() said.
  void ended(std::int64_t ns, bool staged) {
    if (staged != is_far_) return;  // in its middle this rank has heard that others stage: it was neither
    if (!is_far_) {
      read_ns_ = std::min(last_read_ns_, ns);
      last_read_ns_ = ns;
      read_bytes_ = bytes_;
    } else if (trial_ < kTrial) {
      staged_ns_ = std::min(staged_ns_, ns);
      if (++trial_ == kTrial && staged_ns_ >= read_ns_ - read_ns_ / 8) find_staging_slower();
    }
  }
  // How many calls of such a size go the other way before it is looked at again: what it takes to look is to stay
  // little beside them, and so is what it takes until a look comes.
  static std::uint64_t pause(std::size_t bytes, bool was_far, std::uint64_t before) {
    return was_far ? std::min(2 * before, longest_pause(bytes)) : kPause;
  }
  static std::uint64_t longest_pause(std::size_t bytes) {
    return std::clamp(std::bit_floor(kMostPassed / bytes), kPause, kMostPause);
  }

  // So many in a row are slow before it is given up: one may have been interrupted.
  static constexpr std::uint32_t kSlow = 2;
  static constexpr std::uint32_t kMostCold = 3, kMostColdShared = 12;
  // One in so many is timed, and the one after a slow one.
  static constexpr std::uint32_t kTimed = 16;
  // Of those that are staged the first are not measured: their memory is cold, and not all ranks may stage yet.
  static constexpr std::uint32_t kTrial = 3, kUntimed = 2;
  // So many calls are read after those that were slower staged, at first and at most.
  static constexpr std::uint64_t kTrust = 256, kMostTrust = 65536;

 private:
  static constexpr std::int64_t kNever = INT64_MAX;

  Way staged_way(std::size_t bytes) {
    const bool measures = trial_ < kTrial && bytes == read_bytes_ && calls_ > far_since_ + kUntimed;
    return measures ? Way::staged_timed : Way::staged;
  }
  void find_staging_slower() {
    is_far_ = false;
    slow_ = 0;
    trust_of(bytes_).extend(calls_);
  }
  // Of calls about as large: reading is not given up before that call.
  struct Trust {
    std::uint64_t until = 0, span = kTrust;
    bool holds(std::uint64_t call) const { return call < until; }
    void extend(std::uint64_t call) {
      until = call + span;
      span = std::min(2 * span, kMostTrust);
    }
  };
  Trust& trust_of(std::size_t bytes) { return trust_[std::size_t(std::bit_width(bytes / kLeastOfTwo)) % kSizes]; }
  void judge(std::size_t bytes) {
    if (!read_) return;
    const bool is_slow = over_ns_ > 0;
    read_ = false;
    over_ns_ = 0;
    slow_ = is_slow ? slow_ + 1 : 0;
    if (!is_slow) size_run_.found_near();
    if (slow_ >= kSlow && !is_far_ && !trust_of(bytes).holds(calls_)) find_far(bytes);
  }
  // Looks come at multiples of the pause, so that ranks that have found this at different calls look together in the
  // end.
  void find_far(std::size_t bytes) {
    pause_ = pause(bytes, looked_at_ > 0 && calls_ - looked_at_ <= cold_calls(bytes, alone_) + kSlow, pause_);
    look_at_ = (calls_ / pause_ + 1) * pause_;
    size_run_.found_far(bytes);
    is_far_ = true;
    slow_ = 0;
    far_since_ = calls_;
    trial_ = 0;
    staged_ns_ = kNever;
    if (read_bytes_ != bytes) read_ns_ = last_read_ns_ = kNever;
  }

  // Bytes per ns. What lies in the own caches or those that are shared comes with 27 to 50, of another processor's 6
  // to 20.
  static constexpr std::int64_t kLoaded = 22;
  static constexpr std::int64_t kLoadNs = 60;  // a look at the clock, and the first lines
  // By system call it is up to 28 and 10, and the call itself.
  static constexpr std::int64_t kCalled = 14;
  static constexpr std::int64_t kCalledLarge = 11;  // of both at once, from where on the caches begin to be short
  static constexpr std::int64_t kCalledHuge = 12;   // of one alone, from where on two buffers fill the nearer cache
  static constexpr std::size_t kLarge = 256 * 1024;
  static constexpr std::size_t kHuge = 768 * 1024;
  static constexpr std::size_t kLargeShared = 64 * 1024;  // where ranks share them
  static constexpr std::int64_t kCallNs = 900;
  static constexpr std::uint64_t kPause = 64;
  static constexpr std::uint64_t kMostPause = 1024;
  static constexpr std::uint64_t kMostPassed = 256 * 1024 * 1024;
  // Smaller ones take too little time, or, between two ranks, stage nothing the other way; larger ones do not stay in
  // the caches, which where all read several ranks' buffers and share the processor are full sooner.
  static constexpr std::size_t kLeast = 2 * 1024;
  static constexpr std::size_t kLeastOfTwo = 1024;
  static constexpr std::size_t kMostOfOne = 1024 * 1024;
  static constexpr std::size_t kMost = 128 * 1024;

  SizeRun size_run_;
  std::uint64_t calls_ = 0;
  std::uint64_t pause_ = kPause;
  std::uint64_t look_at_ = 0;
  std::uint64_t looked_at_ = 0;
  std::uint32_t cold_ = 0;  // so many are not timed yet
  std::uint32_t slow_ = 0;  // of those that were timed, in a row
  bool is_far_ = false;
  bool is_large_ = false;
  bool alone_ = true;
  bool read_ = false;         // something of a timed call
  std::int64_t over_ns_ = 0;  // so much longer than from nearby
  std::size_t bytes_ = 0;     // of the last call
  // What whole calls of read_bytes_ took: the faster of the last two that read, and the fastest one staged since then.
  std::size_t read_bytes_ = 0;
  std::int64_t read_ns_ = kNever;
  std::int64_t last_read_ns_ = kNever;
  std::int64_t staged_ns_ = kNever;
  std::uint32_t trial_ = 0;  // so many have been measured
  std::uint64_t far_since_ = 0;
  static constexpr std::size_t kSizes = 12;  // up to kMostOfOne
  std::array<Trust, kSizes> trust_;
};

}  // namespace anello::executor
