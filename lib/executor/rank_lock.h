#pragma once
// The lock that guards a rank's context. Nearly always one thread takes it, call after call, for less time than the
// processor's locked instructions cost: after a while that thread is favoured, and holds it for short by a store and a load. Who
// else wants it takes the favour back first, which costs him a barrier over all processors (store_barrier.h).
#include "base/this_thread.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace anello::executor {

class RankLock {
 public:
  // As std::mutex has them.
  void lock() {
    mutex_.lock();
    if (favoured_.load(std::memory_order_relaxed) != nullptr) take_back();
  }
  void unlock() { mutex_.unlock(); }

  // Holds it, while it lives, if nobody else does and what it guards says so. Its thread may not call lock() meanwhile.
  class Short {
   public:
    Short(RankLock& lock, const bool& forbidden) : lock_(lock), how_(lock.begin_short()) {
      if (how_ != How::not_at_all && forbidden) let_go();
    }
    ~Short() { let_go(); }
    Short(const Short&) = delete;
    Short& operator=(const Short&) = delete;
    explicit operator bool() const { return how_ != How::not_at_all; }

   private:
    void let_go() {
      if (how_ == How::favoured) lock_.inside_.store(false, std::memory_order_release);
      if (how_ == How::locked) lock_.mutex_.unlock();
      how_ = How::not_at_all;
    }
    friend RankLock;
    enum class How : std::uint8_t { not_at_all, favoured, locked };
    RankLock& lock_;
    How how_;
  };

  // Whether the calling thread is favoured.
  bool favours_caller() const { return favoured_.load(std::memory_order_relaxed) == this_thread(); }

 private:
  Short::How begin_short() {
    if (favours_caller()) {
      inside_.store(true, std::memory_order_relaxed);
      // Who takes the favour back makes either this store visible to himself or his own to this load.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (favours_caller()) return Short::How::favoured;
      inside_.store(false, std::memory_order_release);
    }
    return try_lock() ? Short::How::locked : Short::How::not_at_all;
  }
  bool try_lock();
  void take_back();

  std::mutex mutex_;
  // Set under mutex_.
  std::atomic<const void*> favoured_{nullptr};
  std::atomic<bool> inside_{false};  // the favoured thread holds it for short
  const void* last_ = nullptr;       // that held it for short, with mutex_
  int times_ = 0;                    // in a row
};

}  // namespace anello::executor
