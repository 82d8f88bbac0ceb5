#include "progress/rank_lock.h"

#include "base/store_barrier.h"

#include <new>
#include <utility>

#include <sched.h>

namespace anello::progress {
namespace {

// Withdrawing the favour costs as much as a hundred small calls, so a thread that may be one of two does not get it.
constexpr int kTimes = 500;

}  // namespace

RankLock::~RankLock() {
  while (seats_ != nullptr) delete std::exchange(seats_, seats_->next);
}

// Requires mutex_. Null: there is too little memory.
RankLock::Seat* RankLock::seat_of_caller() {
  for (Seat* seat = seats_; seat != nullptr; seat = seat->next) {
    if (seat->thread == this_thread()) return seat;
  }
  auto* const seat = new (std::nothrow) Seat;
  if (seat == nullptr) return nullptr;
  seat->thread = this_thread();
  seat->next = seats_;
  return seats_ = seat;
}

bool RankLock::try_lock() {
  if (!mutex_.try_lock()) return false;
  if (favoured_.load(std::memory_order_relaxed) != &nobody_) take_back();
  if (last_ != this_thread()) {
    last_ = this_thread();
    times_ = 0;
  }
  if (++times_ >= kTimes && agrees_to_store_barriers()) {
    if (Seat* const seat = seat_of_caller()) favoured_.store(seat, std::memory_order_release);
  }
  return true;
}

// Requires mutex_; called from any other thread.
void RankLock::take_back() {
  Seat* const seat = favoured_.load(std::memory_order_relaxed);
  if (seat->thread == this_thread()) return;
  favoured_.store(&nobody_, std::memory_order_relaxed);
  times_ = 0;
  own_store_barrier();
  while (seat->inside.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace anello::progress
