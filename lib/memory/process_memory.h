#pragma once
// Reads the memory of another process of this host by system call (cross-memory attach). Whether the kernel allows it
// depends on users, Yama's ptrace_scope, system call filters and PID namespaces. Only an attempt tells, and only a
// number that is read back proves that it was the right process.
#include "memory/arena.h"

#include <cstddef>
#include <cstdint>

namespace anello::memory {

// This process's sample, for others to read.
Sample own_sample();
// Tries to read the sample.
bool can_read(const Sample& sample);
// Whether others could read this memory of the own process. Tests its first and last bytes, since memory that was
// mapped in one piece is uniform.
bool can_be_read(std::uint64_t address, std::size_t bytes);
// Reads all bytes from the process that owns the sample. Returns 0 or the errno of the failure; ESRCH means that the
// process has ended, even if another one has its number now.
int read_process(const Sample& sample, std::uint64_t address, std::byte* into, std::size_t bytes);

}  // namespace anello::memory
