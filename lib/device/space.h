#pragma once
// In which space a caller's buffer lies. That is found out where a call enters, and nowhere else.
#include "base/processor.h"
#include "memory/buffer.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anello::device {

namespace detail {
// Pages that were asked about while the process had no driver. An address that the host has given back may become a
// device's later, but to load a driver and make a context takes some hundred milliseconds: a shorter time after a look,
// there still is no device memory.
inline constexpr std::size_t kKnownPages = 64;
inline constexpr std::uint64_t kTrustedTicks = 20'000'000;  // ten milliseconds at 2 GHz
inline std::atomic<std::uintptr_t> known_host[kKnownPages];
inline std::atomic<std::uint64_t> trusted_until{0};  // 0: not at all, or the process has a driver
bool look_whether_on_device(const void* address);
}  // namespace detail

// Whether the address is in a device's memory. Costs some ten instructions for host memory that is used again and again
// by a process without a driver.
inline bool is_on_device(const void* address) {
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) >> 12;
  const bool is_known = detail::known_host[page % detail::kKnownPages].load(std::memory_order_relaxed) == page;
  if (is_known && processor_ticks() < detail::trusted_until.load(std::memory_order_relaxed)) return false;
  return detail::look_whether_on_device(address);
}

// The space of a buffer for which is_on_device() holds. Throws an Error that goes on after the buffer's name: its
// allocation ends before it does, or has been freed.
memory::Space space_of(const void* address, std::size_t bytes);

}  // namespace anello::device
