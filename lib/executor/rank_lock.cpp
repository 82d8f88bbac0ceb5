#include "executor/rank_lock.h"

#include "transports/store_barrier.h"

#include <sched.h>

namespace anello::executor {
namespace {

// To take a favour back costs as much as a hundred small calls, so it is not given to who may be one of two.
constexpr int kTimes = 500;

}  // namespace

bool RankLock::try_lock() {
  if (!mutex_.try_lock()) return false;
  if (favoured_.load(std::memory_order_relaxed) != nullptr) take_back();
  if (last_ != this_thread()) {
    last_ = this_thread();
    times_ = 0;
  }
  if (++times_ >= kTimes && transport::agrees_to_store_barriers()) favoured_.store(last_, std::memory_order_relaxed);
  return true;
}

// Under mutex_, from any other thread.
void RankLock::take_back() {
  if (favours_caller()) return;
  favoured_.store(nullptr, std::memory_order_relaxed);
  times_ = 0;
  transport::store_barrier();
  while (inside_.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace anello::executor
