#pragma once
// The CUDA driver as a table of functions (driver.def), found in libcuda.so.1 while the program runs: nothing links
// CUDA, no CUDA header is needed, and a machine without a GPU runs the rest. Tests fill a table with a device of their
// own.
#include "base/error.h"

#include <cstddef>
#include <cstdint>

namespace anello::kernels::cuda {

struct Driver {
#define ANELLO_CUDA_CALL(field, name, parameters) int(*field) parameters = nullptr;
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL
};

// This machine's, opened and initialised once. Throws Error that says what is missing: no driver, one that is too old,
// no device.
const Driver& driver();

// What the table gets from any library: find(name) is nullptr for what is not there. Throws Error with the first
// missing name.
Driver bind(void* (*find)(void* library, const char* name), void* library);

// Of a call that did not return 0: "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure", and
// what to do where there is something.
Error driver_error(const Driver& driver, const char* call, int code);

inline constexpr int kOldestDriver = 12000;  // the first that loads kernels for all contexts (cuLibraryLoadData)

// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kCapabilityMajor = 75, kCapabilityMinor = 76;

}  // namespace anello::kernels::cuda
