#include "perf/device.h"

#include "perf/failure.h"

#include <cstdint>
#include <string>
#include <type_traits>

#include <dlfcn.h>

namespace perf {
namespace {

struct Driver {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*device)(int*, int);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*allocate)(std::uint64_t*, std::size_t);
  int (*free)(std::uint64_t);
  int (*to_device)(std::uint64_t, const void*, std::size_t, void*);
  int (*from_device)(void*, std::uint64_t, std::size_t, void*);
  int (*wait)(void*);
  int (*error_name)(int, const char**);
};

const Driver* opened = nullptr;

void need(int code, const char* call) {
  if (code == 0) return;
  const char* name = nullptr;
  if (opened == nullptr || opened->error_name(code, &name) != 0) name = "failed";
  throw Failure(std::string(call) + ": " + name + " (" + std::to_string(code) + ")");
}

const Driver& open() {
  static const Driver driver = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw Failure(std::string("--memory device needs CUDA's driver: ") + dlerror());
    Driver found;
    const auto find = [&](auto& field, const char* name) {
      field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(library, name));
      if (field == nullptr) throw Failure(std::string("CUDA's driver has no ") + name);
    };
    find(found.init, "cuInit");
    find(found.count, "cuDeviceGetCount");
    find(found.device, "cuDeviceGet");
    find(found.retain, "cuDevicePrimaryCtxRetain");
    find(found.set_current, "cuCtxSetCurrent");
    find(found.allocate, "cuMemAlloc_v2");
    find(found.free, "cuMemFree_v2");
    find(found.to_device, "cuMemcpyHtoDAsync_v2");
    find(found.from_device, "cuMemcpyDtoHAsync_v2");
    find(found.wait, "cuStreamSynchronize");
    find(found.error_name, "cuGetErrorName");
    return found;
  }();
  opened = &driver;
  return driver;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

void use_device(int local_rank) {
  const Driver& driver = open();
  int count = 0;
  int device = 0;
  void* context = nullptr;
  need(driver.init(0), "cuInit");
  need(driver.count(&count), "cuDeviceGetCount");
  if (count == 0) throw Failure("--memory device: there is no CUDA device; check CUDA_VISIBLE_DEVICES");
  need(driver.device(&device, local_rank % count), "cuDeviceGet");
  need(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
  need(driver.set_current(context), "cuCtxSetCurrent");
}

void* allocate_on_device(std::size_t bytes) {
  std::uint64_t at = 0;
  need(open().allocate(&at, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(at);
}

void free_on_device(void* at) noexcept { opened->free(number(at)); }

void copy_to_device(void* into, const void* from, std::size_t bytes) {
  need(open().to_device(number(into), from, bytes, nullptr), "cuMemcpyHtoDAsync");
  need(open().wait(nullptr), "cuStreamSynchronize");
}

void copy_from_device(void* into, const void* from, std::size_t bytes) {
  need(open().from_device(into, number(from), bytes, nullptr), "cuMemcpyDtoHAsync");
  need(open().wait(nullptr), "cuStreamSynchronize");
}

}  // namespace perf
