#include "memory/sleeper.h"

#include "base/store_barrier.h"

#include <utility>

namespace anello::memory {

void Sleeper::announce(const Arena& arena) {
  if (!arena) return;
  arena.inbox(arena.index())
      .sleeping.store(often_ ? Inbox::kAsleep | Inbox::kFenced : Inbox::kAsleep, std::memory_order_seq_cst);
  if (peers_fence_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    store_barrier();
    peers_fence_ = often_;
  }
}

void Sleeper::take_back(const Arena& arena) const {
  if (arena) arena.inbox(arena.index()).sleeping.store(peers_fence_ ? Inbox::kFenced : 0, std::memory_order_relaxed);
}

void Sleeper::sleeps_often(const Arena& arena, bool often) {
  often_ = often;
  if (!often && std::exchange(peers_fence_, false)) take_back(arena);
}

}  // namespace anello::memory
