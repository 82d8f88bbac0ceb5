#pragma once
// Who publishes something and then looks whether the other sleeps needs its store to be seen first: a full fence in every
// message, as long as a line takes to come. The kernel can do that for it (membarrier): who is about to sleep makes the
// stores of all processes that have agreed to it visible, and who publishes only keeps its program's order.

namespace anello::transport {

// Once a process: lets others do so. False: this kernel, or a filter of system calls, does not offer it.
bool agrees_to_store_barriers();
// Before it returns, what any thread of a process that has agreed has stored is visible here, and what this thread stored
// before is visible to what such a thread loads from now on.
void store_barrier();

}  // namespace anello::transport
