#include "progress/waiting.h"
#include "support/catch.h"

#include <algorithm>

using anello::progress::Patience;
using anello::progress::YieldCost;

namespace {

constexpr std::int64_t kMs = 1'000'000;

// Yields of a time slice each, from begin on, while ranks handle so many bytes in each. How many waits sleep after the
// last.
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

namespace {

// Two processors with a rank of each pair, 0 and 1, 2 and 3, which begin with 0 and 3. A rank whose peer does not run
// looks for as many turns as its patience says, then the other rank of its processor runs. How many hand-overs it takes
// until two of a pair run.
int hand_overs(bool first_is_patient) {
  Patience patience[4];
  int running[2] = {0, 3};
  int left[2];
  const auto begin = [&](int processor) {
    const int rank = running[processor];
    left[processor] = 1 + patience[rank].turns(first_is_patient && rank % 2 == 0);
  };
  begin(0);
  begin(1);
  for (int count = 0; count < 1000;) {
    if (running[0] / 2 == running[1] / 2) return count;
    const int turns = std::min(left[0], left[1]);
    const bool gives[2] = {left[0] == turns, left[1] == turns};
    for (const int processor : {0, 1}) {
      left[processor] -= turns;
      if (!gives[processor]) continue;
      running[processor] = (running[processor] + 2) % 4;
      begin(processor);
      ++count;
    }
  }
  return 1000;
}

}  // namespace

TEST_CASE("pairs that share processors find each other, since one of two has more patience") {
  CHECK(hand_overs(true) <= 2);
  CHECK(hand_overs(false) == 1000);  // both give way at the same moment, for ever: else this test shows nothing
}

TEST_CASE("a yield that took long since hundreds of ranks had their turns is not another program's") {
  // 128 ranks to a processor, each of which looks and yields: 3 us, or 20 where sleepers are to be woken.
  CHECK(YieldCost::is_of_turns(640'000, 127 * 3'000));
  CHECK(YieldCost::is_of_turns(2'600'000, 127 * 20'000));
  // A time slice of 3 ms among few, or among so many that did not run in it.
  CHECK_FALSE(YieldCost::is_of_turns(3'000'000, 3 * 20'000));
  CHECK_FALSE(YieldCost::is_of_turns(3'000'000, 127 * 3'000));
  CHECK_FALSE(YieldCost::is_of_turns(500'000, 0));
}

TEST_CASE("a turn counts only as long as no other program can have been in it") {
  CHECK(YieldCost::credit_of_turn(20'000) == 20'000);
  CHECK(YieldCost::credit_of_turn(3'000'000) == 400'000);
  CHECK(YieldCost::credit_of_turn(-5) == 0);
}
