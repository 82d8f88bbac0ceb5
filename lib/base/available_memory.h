#pragma once
#include <cstdint>

namespace anello {

// Bytes that this process could still touch without somebody being killed for it: of the machine, and of its cgroup
// (v2) and those above. As far as the kernel says; what it does not say is no bound.
std::uint64_t available_memory();
// Of one NUMA node's memory.
std::uint64_t available_memory_of_node(int node);

}  // namespace anello
