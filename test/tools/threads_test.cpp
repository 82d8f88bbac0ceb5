#include "anellorun/threads.h"
#include "support/catch.h"

#include <stdlib.h>

using namespace anellorun;
using From = Threads::From;

namespace {

cpu_set_t processors(int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = 0; cpu < count; ++cpu) CPU_SET(cpu, &set);
  return set;
}

Share share_of(std::vector<Program> programs) {
  Share share;
  for (const Program& program : programs) share.world = share.ranks += program.ranks;
  share.programs = std::move(programs);
  return share;
}

}  // namespace

TEST_CASE("a rank has its part of the processors, but no more threads than processors that it may use") {
  unsetenv("OMP_NUM_THREADS");
  const Share two = share_of({{2, {}, {"true"}}});
  CHECK(threads_of_ranks(two, {}, 16) == std::vector<Threads>(2, {"8", From::share}));
  CHECK(threads_of_ranks(two, {processors(2), processors(4)}, 16) ==
        std::vector<Threads>{{"2", From::share}, {"4", From::share}});
  CHECK(threads_of_ranks(share_of({{1, {}, {"true"}}}), {processors(1)}, 2).front().value == "1");
  CHECK(threads_of_ranks(two, {processors(2), processors(2)}, 1) == std::vector<Threads>(2, {"1", From::share}));
}

TEST_CASE("-x of a program counts for its ranks, and before this shell's value") {
  unsetenv("OMP_NUM_THREADS");
  const Share both = share_of({{1, {{"OMP_NUM_THREADS", "7"}, {"OMP_NUM_THREADS", "8"}}, {"true"}}, {1, {}, {"true"}}});
  CHECK(threads_of_ranks(both, {}, 4) == std::vector<Threads>{{"8", From::option}, {"2", From::share}});
  setenv("OMP_NUM_THREADS", "3", 1);
  CHECK(threads_of_ranks(both, {}, 4) == std::vector<Threads>{{"8", From::option}, {"3", From::shell}});
  unsetenv("OMP_NUM_THREADS");
}

TEST_CASE("what is said of threads is what is set") {
  CHECK(describe(0, {2, 8, 4, true}) == "each rank has OMP_NUM_THREADS=4: 8 processors for 2 ranks");
  CHECK(describe(0, {3, 1, 1, true}) == "each rank has OMP_NUM_THREADS=1: 1 processor for 3 ranks");
  CHECK(describe(1, {2, 8, 4, false}) == "rank 1 has OMP_NUM_THREADS=4: 8 processors for 2 ranks");
  CHECK(describe(0, {2, 8, 1, true}) == "each rank has OMP_NUM_THREADS=1: 1 of 8 processors (--bind-to)");
}
