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
  void progressed() { spent_ = yields_ = 0; }
  // cost: of the turn just done, in turns over shared memory alone; polling a socket is a system call.
  Next next(int cost) {
    if (spent_ < budget_.spins) {
      spent_ += cost;
      return Next::spin;
    }
    return yields_++ < budget_.yields ? Next::yield : Next::sleep;
  }

 private:
  const WaitBudget& budget_;
  int spent_ = 0;
  int yields_ = 0;
};

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace anello::executor
