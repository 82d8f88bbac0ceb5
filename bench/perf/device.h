#pragma once
// A CUDA device's memory, by the driver, which is looked for only if it is needed.
#include <cstddef>

namespace perf {

// Each throws Failure: there is no driver or no device, or it has failed. The device's number is this process's share:
// its rank on the host, modulo the number of devices.
void use_device(int local_rank);
void* allocate_on_device(std::size_t bytes);
void free_on_device(void* at) noexcept;
// Return when the bytes are there.
void copy_to_device(void* into, const void* from, std::size_t bytes);
void copy_from_device(void* into, const void* from, std::size_t bytes);

}  // namespace perf
