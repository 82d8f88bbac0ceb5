#pragma once
// The lock that guards a rank's context. Nearly always one thread takes it, call after call, for less time than the
// processor's locked instructions cost: after a while that thread is favoured, and holds it for short by a store and a
// load. Who else wants it takes the favour back first, which costs him a barrier over all processors (store_barrier.h).
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

  // As std::mutex has them.
  void lock() {
    mutex_.lock();
    if (favoured_.load(std::memory_order_relaxed) != &nobody_) take_back();
  }
  void unlock() { mutex_.unlock(); }

 private:
  // A thread's, for as long as the lock lives. Its own flag: a thread that has lost the favour without knowing it yet
  // raises and lowers its flag while another one may be inside.
  struct Seat {
    const void* thread = nullptr;
    std::atomic<bool> inside{false};  // it holds the lock for short
    Seat* next = nullptr;
  };

 public:
  // Holds it, while it lives, if nobody else does and what it guards says so. Its thread may not call lock() meanwhile.
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
    Seat* seat_;  // nobody's: it has the mutex; null: it does not hold the lock
  };

  // Whether the calling thread is favoured.
  bool favours_caller() const { return favoured_.load(std::memory_order_relaxed)->thread == this_thread(); }

 private:
  Seat* begon_fast_path() {
    Seat* const seat = favoured_.load(std::memory_order_acquire);
    if (seat->thread == this_thread()) {
      seat->inside.store(true, std::memory_order_relaxed);
      // Who takes the favour back makes either this store visible to himself or his own to this load.
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
  const void* last_ = nullptr;  // that held it for short, with mutex_
  int times_ = 0;               // in a row
};

}  // namespace anello::progress
