#pragma once
// The memory of another process of this host, read by system call (cross-memory attach). Whether the kernel allows it
// hangs on users, Yama's ptrace_scope, filters of system calls and namespaces of process numbers; only trying tells,
// and only a number read back tells that it was the right process.
#include "memory/arena.h"

#include <cstddef>
#include <cstdint>

namespace anello::memory {

// Of this process, for others to try.
Sample own_sample();
// Tries it.
bool can_read(const Sample& sample);
// Whether others could read this memory of the own process: by its first byte and its last, since what is mapped at
// once is alike.
bool can_be_read(std::uint64_t address, std::size_t bytes);
// All of it, of the process whose sample that is. Returns 0, or what kept it from being read (an errno); ESRCH: it has
// ended, whoever has its number now.
int read_process(const Sample& sample, std::uint64_t address, std::byte* into, std::size_t bytes);

}  // namespace anello::memory
