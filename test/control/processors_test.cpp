// What ranks of one host may run on, alone and together.
#include "control/occupancy.h"
#include "control/processors.h"
#include "support/catch.h"
#include "support/processors.h"

#include <sched.h>

using anello::control::Member;
using anello::control::Occupancy;
using anello::control::occupancy_of;
using anello::control::Processors;
using anello::control::share_processors;

TEST_CASE("processors are at least one and at most what the affinity mask allows") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(Processors::of_this_process().count() >= 1);
  CHECK(Processors::of_this_process().count() <= CPU_COUNT(&before));
  Processors together;
  int counted = 0;
  for (const int processor : anello::test::allowed_processors()) {
    REQUIRE(anello::test::bind_to(processor));
    const Processors own = Processors::of_this_process();
    CHECK(own.count() == 1);
    ++counted;
    together.join(own);
    if (together.quota() == 0) CHECK(together.count() == counted);
  }
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("ranks on processors of their own have as many as they are; on the same one, one") {
  Processors first({1}, 0);
  first.join(Processors({0, 2}, 0));
  CHECK(first.count() == 2);
  first.join(Processors({0, 2}, 0));
  CHECK(first.count() == 2);
}

TEST_CASE("a quota cuts the count, the larger of two stands, and one without a limit lifts it") {
  Processors processors({0xff}, 2);
  CHECK(processors.count() == 2);
  processors.join(Processors({0xff}, 3));
  CHECK(processors.count() == 3);
  processors.join(Processors({0xff}, 0));
  CHECK(processors.count() == 8);
  CHECK(Processors().count() == 1);
}

TEST_CASE("a host's ranks share its processors, and those of other hosts do not count") {
  const auto member = [](int rank, const char* host, Processors::Words allowed) {
    Member made;
    made.rank = rank;
    made.host = host;
    made.processors = Processors(std::move(allowed), 0);
    return made;
  };
  const std::vector<Member> members = {member(0, "here", {3}), member(1, "there", {0xff}), member(2, "here", {1}),
                                       member(3, "here", {2})};
  const Occupancy here = occupancy_of(members, 2);
  CHECK(here.ranks == 3);
  CHECK(here.processors == 2);
  CHECK(here.ranks_per_processor() == 2);
  const Occupancy there = occupancy_of(members, 1);
  CHECK(there.ranks == 1);
  CHECK(there.processors == 8);
  CHECK(there.ranks_per_processor() == 1);
  // Of ranks that share memory under different names all find the same.
  CHECK(share_processors(members, {0, 1}));
  CHECK(share_processors(members, {1, 2}));
  CHECK(!share_processors(members, {1}));
}
