#pragma once
// The kernel doubles a process's descriptor table when it is full. If threads share the table, the thread that needs
// the space waits until no processor uses the old table: 7 to 12 ms each time. So this grows the table before there is
// a second thread.

namespace anello {

// Grows it as far as the process's limit allows. It happens once for the largest number so far and uses no descriptor.
void make_room_for_descriptors(int count);

}  // namespace anello
