#include "device/driver.h"

#include "base/log.h"

#include <atomic>

#include <dlfcn.h>
#include <link.h>

namespace anello::device {
namespace {

using kernels::cuda::Driver;

// How many libraries this process has loaded so far.
unsigned long long libraries_loaded() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
    *static_cast<unsigned long long*>(into) = info->dlpi_adds;
    return 1;  // the first one tells
      },
      &count);
  return count;
}

const Driver* look_for_driver() {
  void* const there = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (there == nullptr) return nullptr;
  dlclose(there);
  try {
    return &kernels::cuda::driver();
  } catch (const Error& why_not) {
    log::info(-1, "the process has CUDA's driver, but buffers on devices cannot be used: ", why_not.text());
    return nullptr;
  }
}

}  // namespace

const Driver* driver_in_use() {
  static std::atomic<const Driver*> in_use{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  const Driver* found = in_use.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  const unsigned long long loaded = libraries_loaded();
  if (looked_at.load(std::memory_order_relaxed) == loaded) return nullptr;
  found = look_for_driver();
  in_use.store(found, std::memory_order_release);
  looked_at.store(loaded, std::memory_order_relaxed);
  return found;
}

void check(const Driver& driver, const char* call, int code) {
  if (code != 0) throw kernels::cuda::driver_error(driver, call, code);
}

}  // namespace anello::device
