#pragma once
// CUDA's driver, for a process that uses devices. Anello never loads it on its own: a process that has not can hold no
// device memory.
#include "base/error.h"
#include "kernels/cuda/driver.h"

namespace anello::device {

// Null: the process has not loaded the driver, or no device works. Cheap after the first time.
const kernels::cuda::Driver* driver_in_use();

// Throws the Error of a call of the driver's that failed.
void check(const kernels::cuda::Driver& driver, const char* call, int code);

}  // namespace anello::device
