#pragma once
// The kernel's table of a process's descriptors doubles when it is full, and where threads share it the one that needs
// the place waits until all processors have been seen to have done with the old one: 7 to 12 ms each time. So: before
// there is a second thread.

namespace anello {

// As far as the process's limit allows. Done once, for the largest number so far; costs no descriptor.
void make_room_for_descriptors(int count);

}  // namespace anello
