#include "progress/waiting.h"

namespace anello::progress {

WaitBudget WaitBudget::of(int local_ranks, int processors, long spin_us) {
  // A turn polls every lane and pauses: about 50 ns. A yield with nobody else to run: about 0.3 us.
  constexpr int kTurnsPerUs = 20;
  constexpr int kYieldsPerUs = 2;
  if (spin_us >= 0) return {static_cast<int>(spin_us) * kTurnsPerUs, 0};
  if (local_ranks > processors) {
    // A hand-over by yield costs 1 to 3 us, waking a sleeper 20 to 50: worth a few rounds of everybody's turns.
    return {0, 400 * local_ranks};
  }
  // A yield to nobody costs a few hundred ns, but one to another program costs its whole time slice; and ranks that
  // were put on one processor all the same wait for each other's spinning. Between the two:
  return {50 * kTurnsPerUs, 1000 * kYieldsPerUs};
}

}  // namespace anello::progress
