#pragma once
// Decides which thread moves a rank's operations, and how it waits when nothing moves. One of the waiting threads
// drives at a time; when it leaves, the next one drives. While operations are in flight and no thread waits, the
// process's service thread drives, and sleeps until an event.
#include "control/job.h"
#include "progress/descriptors.h"
#include "progress/driven.h"
#include "progress/rank_lock.h"
#include "progress/trickle.h"
#include "progress/waiting.h"
#include "memory/sleeper.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace anello::progress {

class Driver {
 public:
  using Lock = std::unique_lock<RankLock>;

  // Throws Error. If spin_us is negative, it is chosen here.
  Driver(control::Job& job, Driven& driven, long spin_us);

  // ---- The rank's lock ----
  Lock lock();
  // Takes the lock if no thread holds it and no thread drives; else empty.
  RankLock::Short lock_if_free() { return RankLock::Short(lock_, driving_); }
  // Whether other threads wait for it while this one has it.
  bool is_lock_wanted() const { return contenders_.load(std::memory_order_relaxed) > 0; }

  // ---- Waiting; these require the lock, as does all that follows ----
  // Runs work while other threads may have the lock, but do not drive.
  template <class Work>
  void without_lock(Work&& work) {
    const bool drove = std::exchange(driving_, true);
    lock_.unlock();
    work();
    contenders_.fetch_add(1, std::memory_order_relaxed);
    lock_.lock();
    contenders_.fetch_sub(1, std::memory_order_relaxed);
    driving_ = drove;
    if (!drove && waiters_ > 0) notify();
  }
  // Drives, or waits for the thread that does.
  void wait(Lock& held, Wait& wait);
  bool is_driving() const { return driving_; }
  // Wakes the driving thread if it sleeps, because there is something new to check.
  void wake();
  // An operation has ended.
  void note_completion();
  // As above, but called without the lock.
  void notify() { changed_.notify_all(); }
  // Peers need not wake this rank: a thread polls itself.
  void stop_sleeping() {
    if (looks_soon_ || says_it_sleeps_) take_sleep_back();
  }

  // ---- Short waits of a thread that does not drive ----
  int spins() const { return budget_.spins; }
  // It has just waited in vain for this many turns, so the next driver need not do so.
  void note_spun() { spun_ = true; }
  bool has_spun() const { return spun_; }
  Patience& message_patience() { return message_patience_; }
  Patience& board_patience() { return board_patience_; }

  // ---- In the background (background.cpp) ----
  // From now on the service thread polls when an event arrives.
  void watch_in_background();
  // Does this after a moment: most callers soon wait for the operations that they have posted.
  void watch_soon();
  // A thread has polled without waiting. was_busy: the state before it did.
  void looked_once(bool was_busy);
  // The caller leaves while operations are in flight.
  void leave();
  // The service thread stops watching this rank. Takes the lock.
  void close();

  Descriptors& descriptors() { return descriptors_; }

 private:
  void drive(Lock& held, Wait& wait);
  Waiting::Next next_turn(Waiting& waiting, int& turns);
  void step_aside(Lock& held);
  const std::atomic<std::uint64_t>* end_turn(std::int64_t now);
  void yield(Lock& held);
  void sleep(Lock& held, Wait& wait, int naps);
  bool announce_sleep();
  void take_sleep_back();
  void ask_service();
  bool poll_for_a_moment();
  void run_in_background();

  control::Job& job_;
  Driven& driven_;
  Descriptors descriptors_;
  WaitBudget budget_;

  RankLock lock_;
  std::condition_variable_any changed_;
  std::atomic<int> contenders_{0};  // threads that wait for the lock
  int waiters_ = 0;                 // threads that wait for an operation or to drive
  bool driving_ = false;            // some thread drives
  bool asleep_ = false;             // it is in epoll_wait
  bool spun_ = false;
  bool asked_service_ = false;   // the service thread will poll when an event arrives
  bool says_it_sleeps_ = false;  // peers have been asked to wake this rank
  bool looks_soon_ = false;      // the timer is set
  bool closing_ = false;

  memory::Sleeper sleeper_;
  YieldCost yield_cost_;
  std::int64_t turn_began_ns_ = 0;  // when this rank last got its processor
  Patience message_patience_;
  Patience board_patience_;  // polling lines of ranks on other processors
  Trickle trickle_;
};

}  // namespace anello::progress
