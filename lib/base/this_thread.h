#pragma once
// Names of threads that cost one instruction to ask for.

namespace anello {

// Found at a fixed offset from the thread's pointer.
[[gnu::tls_model("initial-exec")]] inline thread_local const char this_thread_mark = 0;

// This thread's, while it lives: no other one has it.
inline const void* this_thread() { return &this_thread_mark; }

}  // namespace anello
