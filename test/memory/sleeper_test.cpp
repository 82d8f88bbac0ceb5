// A rank falls asleep while another publishes news: it must not sleep on unless it has seen the news or its bell rings.
#include "memory/sleeper.h"

#include "base/clock.h"
#include "support/catch.h"
#include "support/processors.h"
#include "base/store_barrier.h"
#include "transports/test_arena.h"

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::memory;

namespace {

constexpr std::uint32_t kRounds = 60'000;
// If both sides share a processor, or others compute on it, a round takes milliseconds.
constexpr int kMostMs = 3000;

// Waits for the other side; if both share a processor, the other side must get its turn.
void await(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  for (int turn = 0; word.load(std::memory_order_acquire) != value; ++turn) {
    if (turn > 2000) std::this_thread::yield();
  }
}

// Takes some nanoseconds.
void dawdle(std::uint32_t turns) {
  for (std::uint32_t turn = 0; turn < turns; ++turn) asm volatile("");
}

// Runs another process on every processor. From then on the kernel's barrier reaches this process's threads there
// (store_barrier.h).
void run_others_everywhere() {
  for (const int processor : anello::test::allowed_processors()) {
    const pid_t other = ::fork();
    if (other == 0) {
      anello::test::bind_to(processor);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(other, &status, 0);
  }
}

struct Sleeps {
  std::uint32_t all = 0,
                lost = 0;  // rounds whose news came too late for the last look; of these, those that nobody would end
};

// `often(round)`: whether the sleeper sleeps often at that time.
template <class Often>
Sleeps race(Often often) {
  const testing::TestArena arena(2);
  const Arena sleeping = arena.of(0), publishing = arena.of(1);
  sleeping.inbox(0).barriers.store(agrees_to_store_barriers() ? 1 : 0);
  run_others_everywhere();
  alignas(64) std::atomic<std::uint32_t> started{0};
  alignas(64) std::atomic<std::uint32_t> news{0};
  alignas(64) std::atomic<std::uint32_t> published{0};
  bool over = false;  // written before `started`
  std::thread publisher([&] {
    std::minstd_rand random(1);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      await(started, round);
      if (over) return;
      // This brings the line here, as a busy lane has it: wake then reads it long before the news leave this processor.
      [[maybe_unused]] const volatile std::uint32_t look = publishing.inbox(0).sleeping.load(std::memory_order_relaxed);
      dawdle(random() % 64);
      news.store(round, std::memory_order_relaxed);
      publishing.wake(0);
      published.store(round, std::memory_order_release);
    }
  });
  Sleeper sleeper;
  std::minstd_rand random(2);
  Sleeps sleeps;
  // Both stores must be in flight at once, within some ten nanoseconds: earlier rounds tell which side was late.
  std::uint32_t late[4] = {400, 400, 400, 400};
  const Deadline deadline = Deadline::in_ms(kMostMs);
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    sleeper.sleeps_often(sleeping, often(round));
    over = deadline.passed();
    started.store(round, std::memory_order_release);
    if (over) break;
    std::uint32_t& delay = late[round % 4];
    dawdle(delay + random() % 64);
    sleeper.announce(sleeping);
    const bool seen = news.load(std::memory_order_relaxed) == round;
    await(published, round);
    std::uint64_t count = 0;
    const bool rung = ::read(arena.bell(0), &count, sizeof count) == sizeof count;
    sleeps.all += !seen;
    delay = seen ? delay - (delay > 0) : delay + (delay < 4000);
    sleeps.lost += !seen && !rung;
    sleeper.take_back(sleeping);
  }
  publisher.join();
  return sleeps;
}

}  // namespace

TEST_CASE("a rank that falls asleep has seen the news or is woken") {
  SECTION("it sleeps often, and publishers fence") {
    const Sleeps sleeps = race([](std::uint32_t) { return true; });
    CHECK(sleeps.lost == 0);
    CHECK(sleeps.all > 0);
  }
  SECTION("it switches to frequent sleeps and back") {
    CHECK(race([](std::uint32_t round) { return round % 4 >= 2; }).lost == 0);
  }
  SECTION("it sleeps now and then, with a barrier over all processors") {
    CHECK(race([](std::uint32_t) { return false; }).lost == 0);
  }
}
