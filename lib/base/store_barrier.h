#pragma once
// Who publishes something and then looks whether the other sleeps needs its store to be seen first: a full fence in
// every message, as long as a line takes to come. The kernel can do that for it (membarrier): who is about to sleep
// makes the stores of all processes that have agreed to it visible, and who publishes only keeps its program's order.
//
// Of other processes it does so nearly always: a processor that was idle and had this process's memory loaded when the
// process agreed is left out of store_barrier until it has run another process (Linux, the runqueue's membarrier_state;
// seen on 6.18, in one process of ten on an idle machine). Whoever could wait for good looks again by the clock, and
// where memory is at stake there is store_barrier_for_sure.

namespace anello {

// Once a process: lets others do so. False: this kernel, or a filter of system calls, does not offer it.
bool agrees_to_store_barriers();
// Before it returns, what any thread of a process that has agreed has stored is visible here, and what this thread
// stored before is visible to what such a thread loads from now on; but see above.
void store_barrier();
// The same of all threads on all processors, in tens of milliseconds.
void store_barrier_for_sure();
// The same of this process's own threads alone, surely, as fast as the first.
void own_store_barrier();

}  // namespace anello
