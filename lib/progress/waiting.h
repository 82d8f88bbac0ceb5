#pragma once
// How a rank waits: it spins for a budget, then yields its processor, then sleeps on descriptors. The budgets depend on
// how many ranks share how many processors: with more ranks than processors, a spinning rank keeps the rank that it
// waits for from running, so it yields at once. The budgets are counted in turns, not in time, because a spinning rank
// does not read the clock.
#include <algorithm>
#include <cstdint>

#include <sched.h>

namespace anello::progress {

struct WaitBudget {
  int spins = 0;   // turns with a pause instruction
  int yields = 0;  // turns with sched_yield after that

  // If spin_us is negative, the budget is chosen here.
  static WaitBudget of(int local_ranks, int processors, long spin_us);
};

// The recent cost of a yield. Among ranks, the processor comes back after the others' turns; a program that computes
// keeps it for a whole time slice each time. A sleeper that is woken takes the processor back, so waiting ranks sleep
// while such a program is present, and only yield now and then to check whether it is gone.
class YieldCost {
 public:
  // Whether a yield was so long that something other than a waiting rank had the processor: long_one then finds out
  // what.
  bool is_long(std::int64_t ns) {
    if (ns >= kLongNs) return true;
    // Among other yielding ranks, the program may not have run next.
    if (cheap_ < kConvinced && ++cheap_ == kConvinced) pause_ = kFirstPause;
    return false;
  }
  // Whether other ranks have used this processor for most of that time, each to poll and to yield. If a processor has
  // hundreds of ranks, their turns add up to a time slice.
  static bool is_of_turns(std::int64_t ns, std::uint64_t turns_ns) { return turns_ns * 2 >= std::uint64_t(ns); }
  // The most that a turn adds to that sum: in a longer one, another program may have used the processor.
  static std::uint64_t credit_of_turn(std::int64_t ns) { return std::uint64_t(std::clamp(ns, {}, kLongNs)); }
  // handled: bytes that all ranks of the host have moved and reduced since they began.
  void long_one(std::int64_t now_ns, std::uint64_t handled) {
    const std::int64_t elapsed_ns = now_ns - last_ns_;
    const bool by_ranks = handled - last_handled_ >= static_cast<std::uint64_t>(elapsed_ns) * kBytesPerNs;
    last_ns_ = now_ns;
    last_handled_ = handled;
    cheap_ = 0;
    if (by_ranks || elapsed_ns > kForgottenNs) return;
    left_ = pause_;
    pause_ = pause_ < kLongestPause ? pause_ * 2 : pause_;
  }
  // Whether to sleep instead of the next yield.
  bool is_dear() { return left_ > 0 && left_-- > 0; }

 private:
  static constexpr std::int64_t kLongNs = 400'000;  // less than a time slice
  static constexpr std::uint64_t kBytesPerNs = 1;   // ranks that work do ten times as much
  static constexpr std::int64_t kForgottenNs = 100'000'000;
  static constexpr int kConvinced = 32;
  static constexpr int kFirstPause = 16;
  static constexpr int kLongestPause = 4096;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_handled_ = 0;
  int cheap_ = 0;            // yields in a row
  int pause_ = kFirstPause;  // the number for the next time
  int left_ = 0;             // waits until a yield is tried again
};

// If ranks share processors, a waiting rank yields its own, because the rank that it waits for may need it. But a peer
// on another processor answers sooner than a hand-over takes, and two processors whose ranks wait a moment for each
// other complete twice as many calls per hand-over. So a wait begins with a few turns if this has paid off lately, and
// now and then to check whether it does.
class Patience {
 public:
  // The turns for a new wait. Two ranks that wait only for each other must not yield at the same moment: the ranks that
  // run next would be no better matched, and so on. So the first rank of a pair (the lower one) waits until others have
  // had their turn.
  int turns(bool first_of_two) {
    if (left_ > 0) {
      --left_;
      return 0;
    }
    left_ = pause_;
    pause_ = pause_ < kLongestPause ? pause_ * 2 : pause_;
    return kTurns * (first_of_two ? kOthersTurns : 1);
  }
  // They were enough.
  void rewarded() {
    pause_ = 1;
    left_ = 0;
  }

 private:
  static constexpr int kTurns = 80;  // about a hand-over
  static constexpr int kOthersTurns = 4;
  static constexpr int kLongestPause = 64;
  int pause_ = 1;  // waits without such turns after the next failure
  int left_ = 0;
};

// The cost of polling a socket, in turns of a wait.
inline constexpr int kSocketTurns = 10;

class Waiting {
 public:
  enum class Next { spin, yield, sleep };

  // spun: the caller has spent the turns already.
  Waiting(const WaitBudget& budget, bool spun) : budget_(budget), spent_(spun ? budget.spins : 0) {}
  void progressed() { spent_ = yields_ = 0; }
  // cost: of the last turn, in turns that poll only shared memory; polling a socket is a system call.
  Next next(int cost) {
    if (spent_ < budget_.spins) {
      spent_ += cost;
      return Next::spin;
    }
    return yields_++ < budget_.yields ? Next::yield : Next::sleep;
  }

 private:
  const WaitBudget& budget_;
  int spent_;
  int yields_ = 0;
};

}  // namespace anello::progress
