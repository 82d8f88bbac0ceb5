#include "transports/store_barrier.h"

#include <atomic>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::transport {

bool agrees_to_store_barriers() {
  static const bool agreed = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
                             ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
  return agreed;
}

void store_barrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (agrees_to_store_barriers()) ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace anello::transport
