#include "progress/driver.h"

#include "base/bell.h"
#include "support/catch.h"
#include "transports/registry.h"
#include "support/local_jobs.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <sys/eventfd.h>

namespace {

using anello::progress::Driven;
using anello::progress::Driver;
using anello::progress::Wait;

constexpr auto kLimit = std::chrono::seconds(10);

// Things to do, each of which one look does.
class Chores final : public Driven {
 public:
  std::atomic<int> due{0};   // can be done now
  std::atomic<int> open{0};  // not done
  std::atomic<int> drivers{0};
  std::atomic<int> looks{0};
  std::atomic<bool> slept{false};
  std::atomic<std::thread::id> mover{};

  void begin_driving() override { ++drivers; }
  bool move() override {
    ++looks;
    if (due == 0) return false;
    mover = std::this_thread::get_id();
    --due;
    --open;
    return true;
  }
  bool is_busy() override { return open > 0; }
  void about_to_sleep() override { slept = true; }
  bool arm() override { return false; }
  int longest_sleep_ms() const override { return 200; }
  long poll_again_ns() const override { return 50'000'000; }
  int sockets() const override { return 0; }
  bool waits_elsewhere() const override { return false; }
  bool is_first_of_two() const override { return false; }
  std::size_t rest_of_frames() const override { return 0; }
  std::uint64_t received_bytes() const override { return 0; }
};

// Until only so many are open.
class UntilOpen final : public Wait {
 public:
  UntilOpen(const Chores& chores, int most) : chores_(chores), most_(most) {}
  bool is_over() const override { return chores_.open <= most_; }
  void tick() override { ++ticks; }
  int ticks = 0;

 private:
  const Chores& chores_;
  const int most_;
};

template <class Condition>
void await(Condition&& condition) {
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("not in ten seconds");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Rank {
  anello::test::LocalJobs jobs{1, anello::transport::bit_of("shm")};
  std::unique_ptr<anello::control::Job> job = jobs.take(0);
  Chores chores;
  Driver driver{*job, chores, 0};

  ~Rank() { driver.close(); }
  void wait_until_open(int most) {
    UntilOpen wait(chores, most);
    Driver::Lock held = driver.lock();
    driver.wait(held, wait);
  }
};

}  // namespace

TEST_CASE("a thread that waits drives until what it waits for is over") {
  Rank rank;
  rank.chores.open = 3;
  rank.chores.due = 2;
  rank.wait_until_open(1);
  CHECK(rank.chores.open == 1);
  CHECK(rank.chores.drivers == 1);
  CHECK_FALSE(rank.driver.is_driving());
}

TEST_CASE("a thread that stops driving leaves that to another one that waits") {
  Rank rank;
  rank.chores.open = 2;
  std::thread first([&] { rank.wait_until_open(1); });
  await([&] { return rank.chores.drivers == 1; });
  std::thread second([&] { rank.wait_until_open(0); });
  rank.chores.due = 1;
  first.join();
  await([&] { return rank.chores.drivers == 2; });
  rank.chores.due = 1;
  second.join();
  CHECK(rank.chores.open == 0);
}

TEST_CASE("a driver that sleeps looks again when it is woken, and now and then without that") {
  Rank rank;
  rank.chores.open = 1;
  std::thread waiting([&] { rank.wait_until_open(0); });
  await([&] { return rank.chores.slept.load(); });
  SECTION("woken") {
    rank.chores.due = 1;
    anello::ring(rank.job->wake_descriptor());
  }
  SECTION("by the clock") { rank.chores.due = 1; }
  waiting.join();
  CHECK(rank.chores.open == 0);
}

TEST_CASE("a sleeping driver keeps the lock from nobody") {
  Rank rank;
  rank.chores.open = 1;
  std::thread waiting([&] { rank.wait_until_open(0); });
  await([&] { return rank.chores.slept.load(); });
  {
    const Driver::Lock held = rank.driver.lock();
    CHECK(rank.driver.is_driving());
    CHECK_FALSE(rank.driver.lock_if_free());
    rank.chores.due = 1;
    rank.driver.wake();
  }
  waiting.join();
}

TEST_CASE("where nobody waits the service thread moves what is under way") {
  Rank rank;
  rank.chores.open = 1;
  {
    const Driver::Lock held = rank.driver.lock();
    rank.driver.leave();
  }
  rank.chores.due = 1;
  await([&] { return rank.chores.open == 0; });
  CHECK(rank.chores.mover.load() != std::this_thread::get_id());
  CHECK(rank.chores.drivers == 0);
}

TEST_CASE("a driver that is closed asks nobody to look") {
  Rank rank;
  rank.driver.close();
  rank.chores.open = 1;
  {
    const Driver::Lock held = rank.driver.lock();
    rank.driver.watch_in_background();
    rank.driver.watch_soon();
  }
  rank.chores.due = 1;
  anello::ring(rank.job->wake_descriptor());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(rank.chores.open == 1);
}
