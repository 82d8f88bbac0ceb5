#pragma once
// What fake_cuda.cpp's calls about memory that is mapped do, by the names of driver.def.
#include "fake_device_calls.h"

#include <cstdint>

namespace anello::testing {

struct MappedCalls {
  static FakeMemory& memory() { return fake_device().memory; }
  static int done(bool well) { return well ? 0 : kInvalidValue; }

  static int make_memory(std::uint64_t* handle, std::size_t bytes, const kernels::cuda::MemoryProperties* properties,
                         unsigned long long) {
    if (const int code = fake_device().entered("cuMemCreate")) return code;
    if (!DeviceCalls::exists(properties->place.device)) return kInvalidValue;
    *handle = memory().make(bytes, properties->place.device, properties->handle_types == kernels::cuda::kDescriptor);
    return *handle != 0 ? 0 : kOutOfMemory;
  }
  static int release_handle(std::uint64_t handle) {
    if (const int code = fake_device().entered("cuMemRelease")) return code;
    return done(memory().release_handle(handle));
  }
  static int handle_at(std::uint64_t* handle, void* address) {
    if (const int code = fake_device().entered("cuMemRetainAllocationHandle")) return code;
    *handle = memory().handle_at(reinterpret_cast<std::uint64_t>(address));
    return done(*handle != 0);
  }
  static int pass_memory(void* file, std::uint64_t handle, int, unsigned long long) {
    if (const int code = fake_device().entered("cuMemExportToShareableHandle")) return code;
    *static_cast<int*>(file) = memory().pass(handle);
    return done(*static_cast<int*>(file) >= 0);
  }
  static int take_memory(std::uint64_t* handle, void* file, int) {
    if (const int code = fake_device().entered("cuMemImportFromShareableHandle")) return code;
    *handle = memory().take(static_cast<int>(reinterpret_cast<std::intptr_t>(file)));
    return done(*handle != 0);
  }
  static int reserve_addresses(std::uint64_t* address, std::size_t bytes, std::size_t, std::uint64_t,
                               unsigned long long) {
    if (const int code = fake_device().entered("cuMemAddressReserve")) return code;
    *address = memory().reserve(bytes);
    return *address != 0 ? 0 : kOutOfMemory;
  }
  static int free_addresses(std::uint64_t address, std::size_t bytes) {
    if (const int code = fake_device().entered("cuMemAddressFree")) return code;
    return done(memory().free_reserved(address, bytes));
  }
  static int map_memory(std::uint64_t address, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                        unsigned long long) {
    if (const int code = fake_device().entered("cuMemMap")) return code;
    return done(offset == 0 && memory().map(address, bytes, handle));
  }
  static int unmap_memory(std::uint64_t address, std::size_t bytes) {
    if (const int code = fake_device().entered("cuMemUnmap")) return code;
    fake_device().wait();
    return done(memory().unmap(address, bytes));
  }
  static int allow_access(std::uint64_t address, std::size_t bytes, const kernels::cuda::MemoryAccess* access,
                          std::size_t) {
    if (const int code = fake_device().entered("cuMemSetAccess")) return code;
    if (!memory().allow(address, bytes)) return kInvalidValue;
    const int owner = memory().find(address).device, device = access->place.device;
    const std::lock_guard lock(fake_device().mutex);
    fake_device().devices[static_cast<std::size_t>(device)].reaches.insert(owner);
    return 0;
  }
};

}  // namespace anello::testing
