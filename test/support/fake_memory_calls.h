#pragma once
// What fake_cuda.cpp's calls about memory do, by the names of driver.def.
#include "fake_device.h"

#include "fake_device_calls.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace anello::testing {

inline constexpr int kInvalidHandle = 400;  // CUresult

struct MemoryCalls {
  static constexpr std::size_t kTotal = std::size_t{1} << 30;

  static void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }
  static void* real(std::uint64_t address, std::size_t bytes) { return fake_device().memory.real(at(address), bytes); }
  static int memory_info(std::size_t* free, std::size_t* total) {
    *total = kTotal;
    *free = kTotal - allocated_bytes();
    return fake_device().entered("cuMemGetInfo_v2");
  }
  static int allocate(std::uint64_t* address, std::size_t bytes) {
    if (const int code = fake_device().entered("cuMemAlloc_v2")) return code;
    if (bytes == 0) return kInvalidValue;
    if (allocated_bytes() + bytes > kTotal) return kOutOfMemory;
    *address = fake_device().memory.allocate(bytes, fake_device().current().device);
    return *address != 0 ? 0 : kOutOfMemory;
  }
  static int release(std::uint64_t address) {
    if (const int code = fake_device().entered("cuMemFree_v2")) return code;
    fake_device().wait();  // as a device does
    return fake_device().memory.release(address) ? 0 : kInvalidValue;
  }
  // An address that the driver does not know has the memory type 0.
  static int pointer_attributes(unsigned count, int* attributes, void** data, std::uint64_t address) {
    if (const int code = fake_device().entered("cuPointerGetAttributes")) return code;
    const FakeMemory::Range range = fake_device().memory.find(address);
    const bool pinned = fake_device().memory.is_pinned(at(address), 1);
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case kernels::cuda::kMemoryType:
          *static_cast<unsigned*>(data[i]) = range.start != 0 ? kernels::cuda::kDeviceMemory : pinned ? 1 : 0;
          break;
        case kernels::cuda::kIsManaged: *static_cast<unsigned*>(data[i]) = 0; break;
        case kernels::cuda::kDeviceOrdinal:
          *static_cast<int*>(data[i]) = range.start != 0 ? range.device : pinned ? 0 : -2;
          break;
        case kernels::cuda::kBufferId: *static_cast<std::uint64_t*>(data[i]) = range.id; break;
        case kernels::cuda::kHandleTypes: *static_cast<unsigned*>(data[i]) = range.can_be_passed ? 1 : 0; break;
        case kernels::cuda::kHasIpcHandle: *static_cast<unsigned*>(data[i]) = range.has_handle ? 1 : 0; break;
        case kernels::cuda::kRangeStart: *static_cast<std::uint64_t*>(data[i]) = range.reserved_start; break;
        case kernels::cuda::kRangeSize: *static_cast<std::size_t*>(data[i]) = range.reserved_bytes; break;
        case kernels::cuda::kPool: *static_cast<void**>(data[i]) = nullptr; break;
        case kernels::cuda::kMappingStart: *static_cast<std::uint64_t*>(data[i]) = range.start; break;
        case kernels::cuda::kMappingSize: *static_cast<std::size_t*>(data[i]) = range.bytes; break;
        default: return kInvalidValue;
      }
    }
    return 0;
  }
  static int range_handle(void* handle, std::uint64_t address, std::size_t bytes, int type, unsigned long long) {
    if (const int code = fake_device().entered("cuMemGetHandleForAddressRange")) return code;
    const int file = type == kernels::cuda::kDmaBuf ? fake_device().memory.range_file(address, bytes) : -1;
    if (file >= 0) *static_cast<int*>(handle) = file;
    return file >= 0 ? 0 : kInvalidValue;
  }
  static int flush_remote_stores(int target, int scope) {
    if (const int code = fake_device().entered("cuFlushGPUDirectRDMAWrites")) return code;
    const bool known = target == kernels::cuda::kCurrentContext && scope == kernels::cuda::kForTheOwner;
    return known && !FakeDevice::contexts.empty() ? 0 : kInvalidValue;
  }
  static int get_handle(kernels::cuda::IpcHandle* handle, std::uint64_t address) {
    if (const int code = fake_device().entered("cuIpcGetMemHandle")) return code;
    FakeMemory::Shared shared;
    if (!fake_device().memory.share(address, &shared)) return kInvalidValue;
    *handle = {};
    std::memcpy(handle->bytes, &shared, sizeof shared);
    return 0;
  }
  static int open_handle(std::uint64_t* address, kernels::cuda::IpcHandle handle, unsigned flags) {
    if (const int code = fake_device().entered("cuIpcOpenMemHandle_v2")) return code;
    if (FakeDevice::contexts.empty()) return kInvalidContext;
    FakeMemory::Shared shared;
    std::memcpy(&shared, handle.bytes, sizeof shared);
    switch (fake_device().memory.open(shared, address)) {
      case FakeMemory::Opened::yes: break;
      case FakeMemory::Opened::own: return kInvalidContext;
      case FakeMemory::Opened::gone: return kInvalidHandle;
      case FakeMemory::Opened::overlaps: return kernels::cuda::kAlreadyMapped;
      case FakeMemory::Opened::no_memory: return kOutOfMemory;
    }
    const std::lock_guard lock(fake_device().mutex);
    if (flags == kernels::cuda::kReachPeer) fake_device().current().reaches.insert(shared.device);
    return 0;
  }
  static int close_handle(std::uint64_t address) {
    if (const int code = fake_device().entered("cuIpcCloseMemHandle")) return code;
    fake_device().wait();
    return fake_device().memory.close(address) ? 0 : kInvalidValue;
  }
  static int register_host(void* address, std::size_t bytes, unsigned) {
    if (const int code = fake_device().entered("cuMemHostRegister_v2")) return code;
    return fake_device().memory.pin(address, bytes) ? 0 : kInvalidValue;
  }
  static int unregister_host(void* address) {
    if (const int code = fake_device().entered("cuMemHostUnregister")) return code;
    fake_device().wait();
    return fake_device().memory.unpin(address) ? 0 : kInvalidValue;
  }
  static int device_address(std::uint64_t* address, void* host, unsigned) {
    *address = reinterpret_cast<std::uint64_t>(host);
    if (!fake_device().memory.is_pinned(host, 1)) return kInvalidValue;
    return fake_device().entered("cuMemHostGetDevicePointer_v2");
  }
  // Found by LeakSanitizer, also when the process ends: what a device that hangs still uses is never released.
  static std::set<void*>& pinned_by_driver() {
    static std::set<void*>& all = *new std::set<void*>;
    return all;
  }
  static int allocate_pinned(void** address, std::size_t bytes, unsigned) {
    *address = std::malloc(bytes);
    {
      const std::lock_guard lock(fake_device().mutex);
      pinned_by_driver().insert(*address);
    }
    fake_device().memory.pin(*address, bytes);
    return fake_device().entered("cuMemHostAlloc");
  }
  static int release_pinned(void* address) {
    {
      const std::lock_guard lock(fake_device().mutex);
      pinned_by_driver().erase(address);
    }
    fake_device().memory.unpin(address);
    std::free(address);
    return fake_device().entered("cuMemFreeHost");
  }
};

}  // namespace anello::testing
