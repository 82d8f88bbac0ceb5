#pragma once
// In which space a caller's buffer lies. That is found out where a call enters, and nowhere else.
#include "base/processor.h"
#include "memory/buffer.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anello::device {

namespace detail {
// To load a driver and make a context takes some hundred milliseconds: a shorter time after a look that found no
// driver, there is no device memory.
#if defined(__aarch64__)
inline constexpr std::uint64_t kTrustedTicks = 200'000;  // its counter runs at 25 MHz to 1 GHz
#else
inline constexpr std::uint64_t kTrustedTicks = 20'000'000;  // ten milliseconds at 2 GHz
#endif
inline std::atomic<std::uint64_t> trusted_until{0};  // 0: not at all, or the process has a driver
bool look_whether_on_device(const void* address);
}  // namespace detail

// Whether the address is in a device's memory. Costs a process without a driver a few instructions, and now and then a
// look for one.
inline bool is_on_device(const void* address) {
  if (processor_ticks() < detail::trusted_until.load(std::memory_order_relaxed)) return false;
  return detail::look_whether_on_device(address);
}

// The space of a buffer for which is_on_device() holds. Throws an Error that goes on after the buffer's name: its
// allocation ends before it does, or has been freed.
memory::Space space_of(const void* address, std::size_t bytes);

}  // namespace anello::device
