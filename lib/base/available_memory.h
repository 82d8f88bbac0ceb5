#pragma once
#include <cstdint>

namespace anello {

// Bytes that this process can still touch before the kernel kills a process: the minimum over the machine, the
// process's cgroup (v2) and the cgroups above it. A limit that the kernel does not report is ignored.
std::uint64_t available_memory();
// The same for one NUMA node's memory.
std::uint64_t available_memory_of_node(int node);

}  // namespace anello
