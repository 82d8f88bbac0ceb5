#include "base/store_barrier.h"

#include <atomic>
#include <initializer_list>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello {

bool agrees_to_store_barriers() {
  static const bool agreed = [] {
    for (const int command : {MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED,
                              MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, MEMBARRIER_CMD_GLOBAL_EXPEDITED}) {
      if (::syscall(SYS_membarrier, command, 0, 0) != 0) return false;
    }
    return true;
  }();
  return agreed;
}

namespace {

void fence_and_order(int command) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (agrees_to_store_barriers()) ::syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

void store_barrier() { fence_and_order(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }
void own_store_barrier() { fence_and_order(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

void store_barrier_for_sure() {
  store_barrier();
  fence_and_order(MEMBARRIER_CMD_GLOBAL);  // not available if processors run without ticks
}

}  // namespace anello
