#pragma once
// The CUDA driver as a table of functions (driver.def), found in libcuda.so.1 at run time: nothing links CUDA, no CUDA
// header is needed, and a machine without a GPU runs the rest. Tests fill a table with a fake device.
#include "base/error.h"

#include <cstddef>
#include <cstdint>

namespace anello::kernels::cuda {

// Names an allocation of this process to others of the host (CUipcMemHandle).
struct IpcHandle {
  unsigned char bytes[64];
};

// CUmemLocation of a device, CUmemAllocationProp and CUmemAccessDesc.
struct MemoryPlace {
  int type = 1;
  int device = 0;
};
struct MemoryProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  MemoryPlace place;
  void* unused = nullptr;
  unsigned char flags[8] = {};
};
struct MemoryAccess {
  MemoryPlace place;
  int flags = 3;  // load and store
};

// CUDA_MEMCPY2D from host memory to a device's.
struct RowsToDevice {
  std::size_t from_x = 0, from_y = 0;
  int from_type = 1;  // host
  const void* from = nullptr;
  std::uint64_t from_device = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t into_x = 0, into_y = 0;
  int into_type = 2;  // device
  void* into_host = nullptr;
  std::uint64_t into = 0;
  void* into_array = nullptr;
  std::size_t into_pitch = 0;
  std::size_t row_bytes = 0, rows = 0;
};

struct Driver {
#define ANELLO_CUDA_CALL(field, name, parameters) int(*field) parameters = nullptr;
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL
};

// This machine's driver, opened and initialised once. Throws an Error that says what is wrong: no driver, a driver that
// is too old, or no device.
const Driver& driver();

// Fills the table from any library: find(name) is nullptr for a missing function. Throws an Error with the first
// missing name.
Driver bind(void* (*find)(void* library, const char* name), void* library);

// The text for a call that did not return 0: "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch
// failure", and what to do if that is known.
Error driver_error(const Driver& driver, const char* call, int code);

inline constexpr int kOldestDriver = 12000;  // the first version that loads kernels for all contexts
                                             // (cuLibraryLoadData)

// CUpointer_attribute
inline constexpr int kMemoryType = 2, kBufferId = 7, kIsManaged = 8, kDeviceOrdinal = 9, kHasIpcHandle = 10,
                     kRangeStart = 11, kRangeSize = 12, kHandleTypes = 14, kPool = 17, kMappingSize = 18,
                     kMappingStart = 19;
inline constexpr int kDescriptor = 1;         // CUmemAllocationHandleType
inline constexpr unsigned kDeviceMemory = 2;  // CUmemorytype
// CUstreamWaitValue_flags
inline constexpr unsigned kWaitReached = 0;  // the word minus the value, as a signed number, is not negative
inline constexpr unsigned kPortable = 1;     // CU_MEMHOSTREGISTER_PORTABLE
inline constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING: not ordered with the default stream
inline constexpr unsigned kReachPeer = 1;    // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// CUresult
inline constexpr int kNotReady = 600, kAlreadyMapped = 208, kAlreadyReaches = 704;

inline constexpr int kRegisters = 4;  // CUfunction_attribute

// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kCapabilityMajor = 75, kCapabilityMinor = 76, kFlushOptions = 117,
                     kStoresOrdered = 118, kHasDmaBufs = 124, kMps = 133;
inline constexpr int kDmaBuf = 1;          // CUmemRangeHandleType
inline constexpr int kFlushFromHost = 1;   // CUflushGPUDirectRDMAWritesOptions
inline constexpr int kCurrentContext = 0;  // CUflushGPUDirectRDMAWritesTarget
inline constexpr int kForTheOwner = 100;   // CUflushGPUDirectRDMAWritesScope, CUGPUDirectRDMAWritesOrdering

}  // namespace anello::kernels::cuda
