// Random programs have the same outcomes whether or not the explorer leaves out orders that it takes for repetitions.
#include "support/catch.h"
#include "weak_memory/explorer.h"

#include <array>
#include <atomic>
#include <random>
#include <set>
#include <vector>

using namespace anello::weak_memory;

namespace {

struct alignas(64) Shared {
  std::atomic<int> at[3];
} shared;

struct Step {
  Kind kind;
  Order order;
  int location;
  int value;
};
using Steps = std::vector<Step>;
constexpr int kMost = 12;  // steps of a program

int random_below(std::mt19937& random, int end) { return int(random() % unsigned(end)); }

Steps random_steps(std::mt19937& random, int count, int* value) {
  constexpr std::array loads{Order::relaxed, Order::acquire, Order::seq_cst};
  constexpr std::array stores{Order::relaxed, Order::release, Order::seq_cst};
  constexpr std::array both{Order::relaxed, Order::acq_rel, Order::acquire, Order::release, Order::seq_cst};
  Steps steps;
  for (int i = 0; i < count; ++i) {
    Step step{Kind::load, Order::relaxed, random_below(random, 2), ++*value};
    const int kind = random_below(random, 16);
    if (kind < 6) {
      step.order = loads[std::size_t(random_below(random, 3))];
    } else if (kind < 12) {
      step.kind = Kind::store;
      step.order = stores[std::size_t(random_below(random, 3))];
    } else if (kind < 13) {
      step.kind = Kind::update;
      step.order = both[std::size_t(random_below(random, 5))];
    } else if (kind < 14) {
      step.kind = Kind::barrier;
    } else {
      step.kind = Kind::fence;
      step.order = both[std::size_t(1 + random_below(random, 4))];
    }
    steps.push_back(step);
  }
  return steps;
}

int take(const Step& step) {
  std::atomic<int>& at = shared.at[step.location];
  switch (step.kind) {
    case Kind::load: return at.load(step.order);
    case Kind::store: at.store(step.value, step.order); return 0;
    case Kind::update: return at.exchange(step.value, step.order);
    case Kind::fence: std::atomic_thread_fence(step.order); return 0;
    default: Explorer::running()->barrier(); return 0;
  }
}

using Values = std::array<int, kMost>;

std::set<Values> outcomes_of(const std::vector<Steps>& threads, bool reduces, std::uint64_t* executions) {
  Explorer explorer;
  explorer.share(&shared, sizeof shared);
  if (!reduces) explorer.leave_nothing_out();
  std::set<Values> seen;
  Values values;
  Program program;
  program.names = {"first", "second", "third"};
  program.begin = [&] {
    values = {};
    std::vector<std::function<void()>> bodies;
    int place = 0;
    for (const Steps& steps : threads) {
      bodies.push_back([&steps, &values, place] {
        for (std::size_t i = 0; i < steps.size(); ++i) values[std::size_t(place) + i] = take(steps[i]);
      });
      place += int(steps.size());
    }
    return bodies;
  };
  program.end = [&] { seen.insert(values); };
  const Outcome outcome = explorer.explore(program, 3'000'000);
  REQUIRE(outcome.is_complete);
  REQUIRE(outcome.failure.empty());
  *executions += outcome.executions + outcome.cut;
  return seen;
}

}  // namespace

TEST_CASE("leaving out repetitions loses no outcome") {
  std::mt19937 random(20260);
  std::uint64_t all = 0, reduced = 0;
  for (int i = 0; i < 300; ++i) {
    int value = 0;
    std::vector<Steps> threads;
    const int count = 2 + random_below(random, 2);
    for (int thread = 0; thread < count; ++thread)
      threads.push_back(random_steps(random, count == 2 ? 3 + random_below(random, 2) : 2, &value));
    INFO("program " << i);
    REQUIRE(outcomes_of(threads, true, &reduced) == outcomes_of(threads, false, &all));
  }
  INFO(reduced << " executions of " << all);
  CHECK(reduced < all / 2);
}
