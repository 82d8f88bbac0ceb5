#pragma once
// How a rank waits: it spins for a budget, then yields its processor, then sleeps on descriptors. The budgets depend on
// how many ranks share how many processors: with more ranks than processors, whoever spins keeps the rank from running
// that it waits for, so it yields at once. Counted in turns, not in time: the clock is read only by those who sleep.
#include <sched.h>

namespace anello::executor {

struct WaitBudget {
  int spins = 0;   // turns with a pause instruction
  int yields = 0;  // turns with sched_yield after that

  // spin_us < 0: chosen here.
  static WaitBudget of(int local_ranks, int processors, long spin_us);
};

class Waiting {
 public:
  enum class Next { spin, yield, sleep };

  explicit Waiting(const WaitBudget& budget) : budget_(budget) {}
  void progressed() { turns_ = 0; }
  Next next() {
    const int turn = turns_++;
    if (turn < budget_.spins) return Next::spin;
    if (turn < budget_.spins + budget_.yields) return Next::yield;
    return Next::sleep;
  }

 private:
  const WaitBudget& budget_;
  int turns_ = 0;
};

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace anello::executor
