#include "progress/driver.h"

#include "base/bell.h"
#include "base/clock.h"
#include "base/processor.h"
#include "control/occupancy.h"
#include "kernels/default_floats.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <sched.h>

namespace anello::progress {
namespace {

WaitBudget budget_of(const control::Job& job, long spin_us) {
  const control::Occupancy occupancy = control::occupancy_of(job.members(), job.rank());
  return WaitBudget::of(occupancy.ranks, occupancy.processors, spin_us);
}

}  // namespace

Driver::Driver(control::Job& job, Driven& driven, long spin_us)
    : job_(job), driven_(driven), descriptors_(job.wake_descriptor()), budget_(budget_of(job, spin_us)) {}

Driver::Lock Driver::lock() {
  contenders_.fetch_add(1, std::memory_order_relaxed);
  Lock held(lock_);
  contenders_.fetch_sub(1, std::memory_order_relaxed);
  return held;
}

void Driver::wake() {
  if (asleep_) ring(job_.wake_descriptor());
}

void Driver::note_completion() {
  if (waiters_ > 0) notify();
  wake();  // abort and destroy end the operations that a sleeping thread waits for
}

void Driver::wait(Lock& held, Wait& wait) {
  while (!wait.is_over()) {
    if (driving_) {
      ++waiters_;
      changed_.wait_for(held, std::chrono::milliseconds(100));
      --waiters_;
      if (!wait.is_over()) wait.tick();
      continue;
    }
    struct Baton {
      Driver& driver;
      explicit Baton(Driver& driven) : driver(driven) { driver.driving_ = true; }
      ~Baton() {
        driver.driving_ = false;
        if (driver.waiters_ > 0) driver.notify();
      }
    } const baton(*this);
    drive(held, wait);
  }
  if (!driving_ && waiters_ == 0 && driven_.is_busy()) watch_soon();
}

void Driver::drive(Lock& held, Wait& wait) {
  const kernels::DefaultFloats floats;
  stop_sleeping();
  driven_.begin_driving();
  trickle_.forget_wait();
  Waiting waiting(budget_, std::exchange(spun_, false));
  int yields = 0;
  int naps = 0;
  int turns = -1;  // turns that poll lines of ranks on other processors before this processor is yielded; -1: not begun
  unsigned looks = 0;
  while (true) {
    // If there is always progress, for other threads or in other communicators, the rank never sleeps, so it would
    // never check deadlines.
    if (++looks % 4096 == 0) wait.tick();
    const bool moved = driven_.move();
    if (moved && turns > 0) board_patience_.rewarded();
    if (moved && trickle_.is_waiting()) trickle_.came(now_ns(), driven_.received_bytes());
    if (wait.is_over()) return;
    if (is_lock_wanted()) step_aside(held);
    if (moved) {
      waiting.progressed();
      naps = 0;
      turns = -1;
      continue;
    }
    if (turns > 0 && driven_.waits_elsewhere()) {
      --turns;
      pause_processor();
      continue;
    }
    switch (next_turn(waiting, turns)) {
      case Waiting::Next::spin: pause_processor(); break;
      case Waiting::Next::yield:
        yield(held);
        turns = -1;
        if (++yields % 256 == 0) wait.tick();
        break;
      case Waiting::Next::sleep: sleep(held, wait, naps++); break;
    }
  }
}

// Handles a turn in which nothing has moved.
Waiting::Next Driver::next_turn(Waiting& waiting, int& turns) {
  Waiting::Next next = waiting.next(1 + kSocketTurns * driven_.sockets());
  const std::size_t rest = budget_.spins > 0 ? driven_.rest_of_frames() : 0;
  if (rest > 0) {
    if (!trickle_.is_waiting()) trickle_.waits(now_ns(), driven_.received_bytes());
    if (trickle_.outlasts_sleep(rest)) next = Waiting::Next::sleep;
  } else if (trickle_.is_waiting()) {
    // The last poll before a sleep read the rest. The rank no longer waits for a frame.
    trickle_.came(now_ns(), driven_.received_bytes());
    trickle_.forget_wait();
  }
  if (next == Waiting::Next::yield && turns < 0 && driven_.waits_elsewhere()) {
    turns = board_patience_.turns(driven_.is_first_of_two());
    if (turns > 0) next = Waiting::Next::spin;
  }
  if (next == Waiting::Next::yield) {
    const bool dear = yield_cost_.is_dear();
    sleeper_.sleeps_often(job_.arena(), dear && budget_.spins == 0);
    if (dear) next = Waiting::Next::sleep;
  }
  return next;
}

// Other threads want the lock to post or test: with a plain mutex, the driver would take it again before they wake up.
void Driver::step_aside(Lock& held) {
  held.unlock();
  for (int turn = 0; is_lock_wanted() && turn < 1000; ++turn) {
    if (turn < 50) {
      pause_processor();
    } else {
      sched_yield();
    }
  }
  held.lock();
}

// Adds the turn that ends here to those of the ranks on this processor. Returns their sum; null: turns are not counted.
const std::atomic<std::uint64_t>* Driver::end_turn(std::int64_t now) {
  const memory::Arena& arena = job_.arena();
  if (!arena) return nullptr;
  std::atomic<std::uint64_t>& turns =
      arena.header().turns[std::size_t(::sched_getcpu()) % memory::kTurnCounts].nanoseconds;
  turns.fetch_add(YieldCost::credit_of_turn(now - turn_began_ns_), std::memory_order_relaxed);
  return &turns;
}

void Driver::yield(Lock& held) {
  held.unlock();
  const std::int64_t before_ns = now_ns();
  const std::atomic<std::uint64_t>* const turns = end_turn(before_ns);
  const std::uint64_t turns_before = turns != nullptr ? turns->load(std::memory_order_relaxed) : 0;
  sched_yield();
  const std::int64_t after_ns = turn_began_ns_ = now_ns();
  held.lock();
  if (!yield_cost_.is_long(after_ns - before_ns) || turns == nullptr) return;
  if (YieldCost::is_of_turns(after_ns - before_ns, turns->load(std::memory_order_relaxed) - turns_before)) return;
  const memory::Arena& arena = job_.arena();
  std::uint64_t handled = 0;
  for (int rank = 0; rank < arena.ranks(); ++rank) handled += arena.inbox(rank).handled.load(std::memory_order_relaxed);
  yield_cost_.long_one(after_ns, handled);
}

// ---- Sleep ----

// True: an event is already there.
bool Driver::announce_sleep() {
  driven_.about_to_sleep();
  sleeper_.announce(job_.arena());
  says_it_sleeps_ = true;
  return driven_.arm() || job_.news.load(std::memory_order_acquire);
}

void Driver::take_sleep_back() {
  if (std::exchange(looks_soon_, false)) descriptors_.set_timer(0);
  if (std::exchange(says_it_sleeps_, false)) sleeper_.take_back(job_.arena());
}

// Sleeps until an event, but at most until deadlines must be checked. The first sleep is short, and each one is longer:
// a rank that misses a wake-up (store_barrier.h) loses at most as much time again as it has waited.
void Driver::sleep(Lock& held, Wait& wait, int naps) {
  const bool something = announce_sleep();
  if (!something && !driven_.move() && !driven_.arm() && !wait.is_over()) {
    asleep_ = true;
    const int most_ms = std::min(2 << std::min(naps, 10), driven_.longest_sleep_ms());
    held.unlock();
    end_turn(now_ns());
    std::array<epoll_event, 16> events;
    descriptors_.wait(events, most_ms);
    turn_began_ns_ = now_ns();
    held.lock();
    asleep_ = false;
  }
  stop_sleeping();
  silence(job_.wake_descriptor());
  wait.tick();
}

}  // namespace anello::progress
