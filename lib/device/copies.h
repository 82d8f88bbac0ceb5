#pragma once
// Copies between host memory that is pinned and a device's, enqueued in a stream. They run on the device's copy
// engines, which processes use side by side, while kernels of several processes take turns of 150 us.
#include "device/driver.h"

#include <cstddef>

namespace anello::device {

// Throw Error. The device's context is current.
void enqueue_to_device(const kernels::cuda::Driver& driver, std::byte* into, const std::byte* from, std::size_t bytes,
                       void* stream);
void enqueue_to_host(const kernels::cuda::Driver& driver, std::byte* into, const std::byte* from, std::size_t bytes,
                     void* stream);

}  // namespace anello::device
