#include "progress/waiting.h"

namespace anello::progress {

WaitBudget WaitBudget::of(int local_ranks, int processors, long spin_us) {
  // A turn polls every lane and pauses, which takes about 50 ns. A yield with no other thread to run takes about 0.3
  // us.
  constexpr int kTurnsPerUs = 20;
  constexpr int kYieldsPerUs = 2;
  if (spin_us >= 0) return {static_cast<int>(spin_us) * kTurnsPerUs, 0};
  if (local_ranks > processors) {
    // A hand-over by yield costs 1 to 3 us, and waking a sleeper costs 20 to 50: this is worth a few rounds of all
    // ranks' turns.
    return {0, 400 * local_ranks};
  }
  // A yield without another thread costs a few hundred ns, but a yield to another program costs its whole time slice;
  // and ranks that were placed on one processor anyway wait for each other's spinning. Between the two:
  return {50 * kTurnsPerUs, 1000 * kYieldsPerUs};
}

}  // namespace anello::progress
