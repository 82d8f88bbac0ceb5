// Falling asleep against publishing, both at once: nobody may sleep with news there that he has not seen and no bell
// rung.
#include "memory/sleeper.h"

#include "base/clock.h"
#include "support/processors.h"
#include "base/store_barrier.h"
#include "transports/test_arena.h"

#include <catch2/catch.hpp>

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
// Where one processor has both, or others compute on it, a round takes milliseconds.
constexpr int kMostMs = 3000;

// Waits for the other side; on one processor it must get its turn.
void await(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  for (int turn = 0; word.load(std::memory_order_acquire) != value; ++turn) {
    if (turn > 2000) std::this_thread::yield();
  }
}

// Some nanoseconds.
void dawdle(std::uint32_t turns) {
  for (std::uint32_t turn = 0; turn < turns; ++turn) asm volatile("");
}

// Another process on every processor, from which on the kernel's barrier reaches this one's threads there
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
                lost = 0;  // rounds whose news came too late for the last look; of these, nobody would have ended
};

// `often(round)`: whether the sleeper is in a row of sleeps then.
template <class Often>
Sleeps race(Often often) {
  const testing::TestArena arena(2);
  const Arena sleeping = arena.of(0), publishing = arena.of(1);
  sleeping.inbox(0).barriers.store(agrees_to_store_barriers() ? 1 : 0);
  run_others_everywhere();
  alignas(64) std::atomic<std::uint32_t> started{0};
  alignas(64) std::atomic<std::uint32_t> news{0};
  alignas(64) std::atomic<std::uint32_t> published{0};
  bool over = false;  // before `started`
  std::thread publisher([&] {
    std::minstd_rand random(1);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      await(started, round);
      if (over) return;
      // Its line is here, as a busy lane's is: the look below comes long before the news have left this processor.
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
  // Both stores must be on their way at once, within some ten nanoseconds: what came before says who was late.
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

TEST_CASE("who falls asleep has seen the news or is woken") {
  SECTION("in a row of sleeps, whose publishers fence") {
    const Sleeps sleeps = race([](std::uint32_t) { return true; });
    CHECK(sleeps.lost == 0);
    CHECK(sleeps.all > 0);
  }
  SECTION("as rows begin and end") {
    CHECK(race([](std::uint32_t round) { return round % 4 >= 2; }).lost == 0);
  }
  SECTION("now and then, with a barrier over all processors") {
    CHECK(race([](std::uint32_t) { return false; }).lost == 0);
  }
}
