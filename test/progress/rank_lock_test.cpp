#include "progress/rank_lock.h"

#include "support/catch.h"
#include "support/processors.h"
#include "base/store_barrier.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using anello::progress::RankLock;

namespace {

constexpr int kEnough = 2000;
const bool kFree = false;

// Until the calling thread is favoured. False: it never is.
bool becomes_favoured(RankLock& lock) {
  for (int turn = 0; turn < kEnough; ++turn) {
    if (!RankLock::Short(lock, kFree)) return false;
  }
  return lock.favours_caller();
}

// While it lives the calling thread stops again and again, wherever it is, for longer than others take to be favoured.
class Stops {
 public:
  Stops() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      const timespec while_others_run{0, 60'000};
      ::nanosleep(&while_others_run, nullptr);
    };
    ::sigaction(SIGUSR1, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) std::abort();  // Catch is for one thread alone
    const itimerspec every{{0, 300'000}, {0, 300'000}};
    ::timer_settime(timer_, 0, &every, nullptr);
  }
  ~Stops() { ::timer_delete(timer_); }
  Stops(const Stops&) = delete;
  Stops& operator=(const Stops&) = delete;

 private:
  timer_t timer_{};
};

}  // namespace

TEST_CASE("rank lock: who holds it for short again and again is favoured until another thread wants it") {
  if (!anello::agrees_to_store_barriers()) {
    WARN("SKIPPED: this kernel does not let processes make each other's stores visible (membarrier)");
    return;
  }
  RankLock lock;
  CHECK(!lock.favours_caller());
  REQUIRE(becomes_favoured(lock));
  // Its own waiting changes nothing.
  lock.lock();
  lock.unlock();
  CHECK(lock.favours_caller());
  std::thread([&] {
    CHECK(!lock.favours_caller());
    lock.lock();
    lock.unlock();
  }).join();
  CHECK(!lock.favours_caller());
  REQUIRE(becomes_favoured(lock));
  std::thread([&] { CHECK(RankLock::Short(lock, kFree)); }).join();
  CHECK(!lock.favours_caller());
}

TEST_CASE("rank lock: it is not held for short where that is forbidden, nor while another thread has it") {
  RankLock lock;
  const bool forbidden = true;
  for (int round = 0; round < 2; ++round) {
    CHECK(!RankLock::Short(lock, forbidden));
    {
      // And is free after that.
      const RankLock::Short held(lock, kFree);
      CHECK(held);
    }
    lock.lock();
    std::thread([&] { CHECK(!RankLock::Short(lock, kFree)); }).join();
    lock.unlock();
    becomes_favoured(lock);
  }
}

TEST_CASE("rank lock: one thread at a time, whichever way they come") {
  RankLock lock;
  bool forbidden = false;  // guarded by the lock, as in the context
  long count = 0;
  std::atomic<int> holder{-1};
  std::atomic<int> intrusions{0}, others{2};
  const auto work = [&](int thread) {
    holder.store(thread, std::memory_order_relaxed);
    ++count;
    for (int look = 0; look < 5; ++look) {
      if (holder.load(std::memory_order_relaxed) != thread) intrusions.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const auto take = [&](int thread, bool shortly) {
    if (shortly) {
      const RankLock::Short held(lock, forbidden);
      if (held) {
        work(thread);
        return true;
      }
    }
    lock.lock();
    work(thread);
    forbidden = count % 7 == 0;
    lock.unlock();
    return false;
  };
  // One that calls and calls, and others that come now and then, so far apart that it is favoured in between.
  long calls = 0, shortly = 0;
  std::thread caller([&] {
    for (; others.load(std::memory_order_relaxed) > 0; ++calls) shortly += take(0, true) ? 1 : 0;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::atomic<long> visited{0};
  const auto visit = [&](int thread) {
    long visits = 0;
    for (; visits % 16 != 0 || std::chrono::steady_clock::now() < end; ++visits) {
      take(thread, visits % 3 == 0);
      for (int pause = 0; pause < 5000; ++pause) std::atomic_signal_fence(std::memory_order_seq_cst);
      if (visits % 16 == 0) std::this_thread::yield();
    }
    visited.fetch_add(visits, std::memory_order_relaxed);
    others.fetch_sub(1, std::memory_order_relaxed);
  };
  std::thread first([&] { visit(1); }), second([&] { visit(2); });
  first.join();
  second.join();
  caller.join();
  CHECK(intrusions == 0);
  CHECK(count == calls + visited);
  CHECK(shortly > calls / 2);
}

// On one processor a thread is interrupted anywhere, and when it goes on others have been favoured and may be inside.
TEST_CASE("rank lock: one thread at a time, where the favour goes from one to another while the first is stopped") {
  const std::vector<int> processors = anello::test::allowed_processors();
  REQUIRE_FALSE(processors.empty());
  constexpr int kThreads = 3;
  RankLock lock;
  std::atomic<int> holder{-1}, intrusions{0};
  volatile long count = 0;
  long times[kThreads] = {}, favoured = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const auto call = [&](int thread) {
    anello::test::bind_to(processors[0]);
    const Stops stops;
    for (int turn = 0; turn % 1024 != 0 || std::chrono::steady_clock::now() < end; ++turn) {
      const RankLock::Short held(lock, kFree);
      if (!held) {
        sched_yield();
        continue;
      }
      favoured += lock.favours_caller() ? 1 : 0;
      holder.store(thread, std::memory_order_relaxed);
      for (int again = 0; again < 5; ++again, ++times[thread]) {
        count = count + 1;
        if (holder.load(std::memory_order_relaxed) != thread) intrusions.fetch_add(1, std::memory_order_relaxed);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(call, thread);
  for (std::thread& thread : threads) thread.join();
  CHECK(intrusions == 0);
  CHECK(count == times[0] + times[1] + times[2]);
  if (anello::agrees_to_store_barriers()) CHECK(favoured > 0);
}
