#pragma once
// The lock that guards a rank's context. Nearly always one thread takes it, call after call, for less time than a
// locked instruction costs. After a while that thread is favoured, and takes the lock for short periods with a store
// and a load. Another thread first withdraws the favour, which costs it a barrier over all processors
// (store_barrier.h).
#include "base/this_thread.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace anello::progress {

class RankLock {
 public:
  RankLock() = default;
  ~RankLock();
  RankLock(const RankLock&) = delete;
  RankLock& operator=(const RankLock&) = delete;

  // As in std::mutex.
  void lock() {
    mutex_.lock();
    if (favoured_.load(std::memory_order_relaxed) != &nobody_) take_back();
  }
  void unlock() { mutex_.unlock(); }

 private:
  // One thread's state, for as long as the lock lives. Each thread has its own flag, because a thread that does not
  // know yet that it has lost the favour raises and lowers its flag while another one may be inside.
  struct Seat {
    const void* thread = nullptr;
    std::atomic<bool> inside{false};  // it holds the lock for a short period
    Seat* next = nullptr;
  };

 public:
  // Holds the lock while it lives, if no other thread does and the guarded state allows it. Its thread may not call
  // lock() meanwhile.
  class Short {
   public:
    Short(RankLock& lock, const bool& forbidden) : lock_(lock), seat_(lock.begon_fast_path()) {
      if (seat_ != nullptr && forbidden) let_go();
    }
    ~Short() { let_go(); }
    Short(const Short&) = delete;
    Short& operator=(const Short&) = delete;
    explicit operator bool() const { return seat_ != nullptr; }

   private:
    void let_go() {
      if (seat_ == &lock_.nobody_) {
        lock_.mutex_.unlock();
      } else if (seat_ != nullptr) {
        seat_->inside.store(false, std::memory_order_release);
      }
      seat_ = nullptr;
    }
    RankLock& lock_;
    Seat* seat_;  // &nobody_: it holds the mutex; null: it does not hold the lock
  };

  // Whether the calling thread is favoured.
  bool favours_caller() const { return favoured_.load(std::memory_order_relaxed)->thread == this_thread(); }

 private:
  Seat* begon_fast_path() {
    Seat* const seat = favoured_.load(std::memory_order_acquire);
    if (seat->thread == this_thread()) {
      seat->inside.store(true, std::memory_order_relaxed);
      // A thread that withdraws the favour makes either this store visible to itself or its own store visible to this
      // load.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (favoured_.load(std::memory_order_relaxed) == seat) return seat;
      seat->inside.store(false, std::memory_order_release);
    }
    return try_lock() ? &nobody_ : nullptr;
  }
  bool try_lock();
  void take_back();
  Seat* seat_of_caller();

  std::mutex mutex_;
  Seat nobody_;
  // Set under mutex_.
  std::atomic<Seat*> favoured_{&nobody_};
  Seat* seats_ = nullptr;
  const void* last_ = nullptr;  // the last thread that held it for a short period, with mutex_
  int times_ = 0;               // in a row
};

}  // namespace anello::progress
