#pragma once
// Decides whether ranks read each other's memory in place, or have it staged or sent. Which is faster depends on the
// machine (whether two processors share a cache, which a virtual machine may change from second to second) and on the
// program (whether it rewrites its buffers before each call). So both are measured: now and then a few calls go the
// other way, and the way is changed if they took an eighth less time than the same number of calls before them. The
// program's work between its calls counts as well: rewriting a buffer takes longer after others have read it. While the
// way is not changed, the next trial comes after twice as many calls.
//
// Ranks make the same calls, so their counts agree, and their trials, which come at multiples of a power of two,
// coincide in the end. A call is staged as soon as one of its ranks wants that. Ranks that read nothing, such as the
// root of a broadcast, do not judge: they follow the ranks that do.
#include "base/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::memory {

// The policy for one communicator's calls of one kind, or for the messages from one peer.
class ReadPolicy {
 public:
  enum class Wish : std::uint8_t { by_time, never, always };  // when to stage
  enum class Way : std::uint8_t { read, staged };
  struct Turn {
    Way way;
    bool measured;  // it is part of a trial or of the calls that the trial is compared with
    bool trial;     // it goes the way that is not kept
  };
  using Clock = std::int64_t (*)();

  ReadPolicy() { stagger(0); }
  // Calls of different sizes and kinds are not tried at the same time, or a trial could be credited with another's
  // gain.
  void stagger(std::uint32_t by);

  // A call over buffers of this many bytes begins. judges: the call reads other ranks' memory if nobody stages.
  Turn next(std::size_t bytes, bool judges = true, Clock now = now_ns);
  // Returns the result that next() would, but changes nothing.
  Turn peek(std::size_t bytes, bool judges = true) const;
  // Another rank stages its calls of this size, and not as a trial.
  void follow(std::size_t bytes);
  // Calls before the next one that is measured; this many calls may skip next().
  std::uint32_t unmeasured(std::size_t bytes) const;
  void skip(std::size_t bytes, std::uint32_t calls) { of(bytes).calls += calls; }

  // Whether calls of this size may be staged: smaller ones take too little time, and larger ones do not stay in the
  // caches. from_one: only one rank's buffer is read.
  static bool concerns(std::size_t bytes, int ranks, bool from_one) {
    return bytes >= (ranks == 2 ? kLeastOfTwo : kLeast) && bytes <= (ranks == 2 || from_one ? kMostOfOne : kMost);
  }
  // Whether messages of this size may be sent instead of read. sharing: ranks per processor. Up to kMostShared a sent
  // message costs them no more hand-overs than a read one, and many ranks' buffers do not fit into a cache.
  static bool concerns_message(std::size_t bytes, int sharing) {
    if (sharing == 1) return bytes >= kLeastOfTwo && bytes <= kMostOfOne;
    return bytes >= kLeast && bytes <= (sharing == 2 ? kMostShared : kMostShared / 2);
  }

  // Classes of sizes, from one power of two to the next; each is judged by itself.
  static constexpr std::size_t kSizes = 12;
  static std::size_t index_of(std::size_t bytes);

  static constexpr std::uint32_t kFirstPause = 32, kMostPause = 1024;
  static constexpr std::uint32_t kMeasured = 8;  // calls of each way

 private:
  static constexpr std::int64_t kUnknown = -1;
  static constexpr std::size_t kLeast = 2 * 1024;
  static constexpr std::size_t kLeastOfTwo = 1024;
  static constexpr std::size_t kMostOfOne = 1024 * 1024;
  static constexpr std::size_t kMost = 128 * 1024;
  static constexpr std::size_t kMostShared = 384 * 1024;

  struct Size {
    std::uint32_t calls = 0;
    std::uint32_t pause = kFirstPause;
    std::uint32_t offset = 0;              // of trials, after multiples of the pause
    std::uint32_t trial_at = kFirstPause;  // the call with which the next trial begins
    std::uint32_t settled_at = 0;          // the call after the last trial that went back to reading
    Way kept = Way::read;
    std::int64_t began_ns = kUnknown;  // when the first call of the current measurement began
    std::int64_t kept_ns = kUnknown;   // duration of the measured calls before the trial

    std::uint32_t length() const;
    std::int32_t ahead() const { return static_cast<std::int32_t>(trial_at - calls); }  // calls before the trial
    Turn turn(bool judges) const;
    void settle(std::size_t bytes, bool judges, Clock now);
    void keep(Way way, std::uint32_t next_pause);
  };
  Size& of(std::size_t bytes) { return sizes_[index_of(bytes)]; }
  const Size& of(std::size_t bytes) const { return sizes_[index_of(bytes)]; }

  std::array<Size, kSizes> sizes_;
};

}  // namespace anello::memory
