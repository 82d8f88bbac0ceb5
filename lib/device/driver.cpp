#include "device/driver.h"

#include "base/log.h"
#include "base/processor.h"

#include <atomic>

#include <dlfcn.h>
#include <link.h>
#include <sched.h>

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
  const Driver* const found = in_use.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  // One thread at a time takes the loader's lock, which would send the others to sleep.
  static std::atomic_flag looking;
  constexpr int kPausesPerYield = 1000;
  for (int turn = 1; looking.test_and_set(std::memory_order_acquire); ++turn) {
    pause_processor();
    if (turn % kPausesPerYield == 0) sched_yield();
  }
  const unsigned long long loaded = libraries_loaded();
  if (looked_at.load(std::memory_order_relaxed) != loaded) {
    in_use.store(look_for_driver(), std::memory_order_release);
    looked_at.store(loaded, std::memory_order_relaxed);
  }
  looking.clear(std::memory_order_release);
  return in_use.load(std::memory_order_acquire);
}

void check(const Driver& driver, const char* call, int code) {
  if (code != 0) throw kernels::cuda::driver_error(driver, call, code);
}

}  // namespace anello::device
