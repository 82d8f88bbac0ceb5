#include "executor/waiting.h"

#include <catch2/catch.hpp>

using anello::executor::YieldCost;

namespace {

constexpr std::int64_t kMs = 1'000'000;

// Yields of a time slice each, from begin on, while ranks handle so many bytes in each. How many waits sleep after the last.
int sleeps_after(YieldCost& cost, std::int64_t begin_ns, int yields, std::uint64_t bytes) {
  static std::uint64_t handled = 0;  // by all, as the ranks of a host tell: it only grows
  int sleeps = 0;
  for (int i = 0; i < yields; ++i) {
    while (cost.is_dear()) {
    }
    REQUIRE(cost.is_long(3 * kMs));
    cost.long_one(begin_ns + i * 3 * kMs, handled += bytes);
  }
  while (cost.is_dear()) ++sleeps;
  return sleeps;
}

}  // namespace

TEST_CASE("who waits sleeps where yields take time slices in which no rank does anything, ever longer") {
  YieldCost cost;
  CHECK_FALSE(cost.is_dear());
  const int after_two = sleeps_after(cost, 1000 * kMs, 2, 8);
  CHECK(after_two > 0);
  CHECK(sleeps_after(cost, 1006 * kMs, 3, 8) > after_two);
  CHECK(sleeps_after(cost, 1015 * kMs, 30, 8) <= 4096);
}

TEST_CASE("who waits goes on yielding while other ranks work for as long, and after one long yield") {
  YieldCost working;
  CHECK(sleeps_after(working, 1000 * kMs, 5, 10'000'000) == 0);
  YieldCost once;
  CHECK(sleeps_after(once, 1000 * kMs, 1, 8) == 0);
  // What was long ago says nothing of now.
  CHECK(sleeps_after(once, 5000 * kMs, 1, 8) == 0);
}

TEST_CASE("short yields in a row make the next pause a short one again") {
  YieldCost cost;
  const int first = sleeps_after(cost, 1000 * kMs, 2, 8);
  const int later = sleeps_after(cost, 1006 * kMs, 4, 8);
  REQUIRE(later > first);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(cost.is_long(2000));
  CHECK(sleeps_after(cost, 1030 * kMs, 1, 8) == first);
}
