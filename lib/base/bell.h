#pragma once
// An eventfd, nonblocking, by which one thread or process wakes another.
#include "base/uncancelled.h"

#include <cstdint>

#include <unistd.h>

namespace anello {

// If the counter is full, the write fails, but the reader wakes anyway.
inline void ring(int eventfd) {
  const Uncancelled whole;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof one);
}

inline void silence(int eventfd) {
  const Uncancelled whole;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(eventfd, &count, sizeof count);
}

}  // namespace anello
