#pragma once
// The work in flight on a rank, and how much it has moved. Waiting threads, here and on the host's other ranks, go by
// it. Requires the rank's lock.
#include "memory/arena.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anello::executor {

struct Activity {
  explicit Activity(const memory::Arena& of) : arena(of) {}

  const memory::Arena& arena;
  std::size_t unfinished = 0;        // operations posted and not done, and lanes with unsent bytes
  std::uint64_t received_bytes = 0;  // payload bytes over routes

  // Counts bytes that were copied, reduced or received: the host's other ranks see that this one works.
  void count_handled(std::size_t bytes) const {
    if (!arena) return;
    std::atomic<std::uint64_t>& handled = arena.inbox(arena.index()).handled;
    handled.store(handled.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
};

}  // namespace anello::executor
