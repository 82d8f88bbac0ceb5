#pragma once
// A thread that publishes something and then checks whether its peer sleeps needs its store to be visible first: a full
// fence in every message, which takes as long as the transfer of a line. The kernel can do this instead (membarrier): a
// thread that is about to sleep makes the stores of all registered processes visible, and the publisher only keeps its
// program order. For other processes this works nearly always: store_barrier skips a processor that was idle and had
// this process's memory loaded when the process registered, until that processor has run another process (Linux, the
// runqueue's membarrier_state; seen on 6.18, in one process of ten on an idle machine). So a thread that could wait
// forever polls again after some time, and store_barrier_for_sure exists for cases where memory is at stake.

namespace anello {

// Registers this process, once. False: this kernel, or a system call filter, does not allow it.
bool agrees_to_store_barriers();
// When it returns, all earlier stores of any thread of a registered process are visible here, and all earlier stores of
// this thread are visible to later loads of such a thread; but see above.
void store_barrier();
// Does this for all threads on all processors, in tens of milliseconds.
void store_barrier_for_sure();
// Does this for this process's own threads only, reliably and as fast as the first.
void own_store_barrier();

}  // namespace anello
