// What a communicator costs a process: a fixed part, a few bytes for each rank, and more only for those it has to do
// with.
#include "support/catch.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <string>
#include <vector>

#include <malloc.h>

using namespace anello::test;

namespace {

constexpr int kComms = 24;

long allocated() {
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<long>(now.uordblks + now.hblkhd);
}

// Bytes of a communicator in one rank of so many: as it is made, after a message between neighbours, and after one
// among all.
struct Cost {
  long made = 0;
  long neighbours = 0;
  long all = 0;
};

Cost cost_of(int ranks, const char* transports) {
  long at[4] = {};
  const std::string wrong = run_ranks(
      ranks, transports,
      [&](const Rank& me) {
    std::vector<anello_comm_t> comms(kComms);
    anello_comm_t first = ANELLO_COMM_NULL;
    // What the parent needs for it is there afterwards.
    me.ok(anello_comm_dup(me.comm, &first), "dup");
    const auto look = [&](int place) {
      me.ok(anello_barrier(me.comm), "barrier");
      if (me.rank == 0) at[place] = allocated();
      me.ok(anello_barrier(me.comm), "barrier");
    };
    const auto pass = [&](anello_comm_t comm, int to, int from) {
      int value = me.rank, got = -1;
      me.ok(anello_sendrecv(&value, 1, to, 0, &got, 1, from, 0, ANELLO_INT32, comm, nullptr), "sendrecv");
      if (got != from) me.report.wrong("rank ", me.rank, " got ", got, " in place of ", from);
    };
    for (int apart = 1; apart < me.size; ++apart) {
      pass(first, (me.rank + apart) % me.size, (me.rank + me.size - apart) % me.size);
    }
    look(0);
    for (anello_comm_t& comm : comms) me.ok(anello_comm_dup(me.comm, &comm), "dup");
    look(1);
    for (const anello_comm_t comm : comms) pass(comm, me.rank ^ 1, me.rank ^ 1);
    look(2);
    for (const anello_comm_t comm : comms) {
      for (int apart = 1; apart < me.size; ++apart) {
        pass(comm, (me.rank + apart) % me.size, (me.rank + me.size - apart) % me.size);
      }
    }
    look(3);
    for (const anello_comm_t comm : comms) me.ok(anello_comm_destroy(comm), "destroy");
    me.ok(anello_comm_destroy(first), "destroy");
      },
      60'000);
  CHECK(wrong == "");
  const long each = long{kComms} * ranks;
  return {(at[1] - at[0]) / each, (at[2] - at[0]) / each, (at[3] - at[0]) / each};
}

}  // namespace

TEST_CASE("a communicator of many ranks costs little more than one of few, until it has to do with them") {
  if (kMemoryFactor != 1) {
    WARN("SKIPPED: a sanitizer's allocator does not say how much is in use");
    return;
  }
  constexpr int kFew = 4, kMany = 24;
  const Cost few = cost_of(kFew, "inproc"), many = cost_of(kMany, "inproc");
  CAPTURE(few.made, few.neighbours, few.all, many.made, many.neighbours, many.all);
  CHECK(few.made < 48 * 1024);
  // A rank more: its number here and there, and the places of its board line and flow.
  CHECK(many.made - few.made < (kMany - kFew) * 128);
  // One peer each.
  CHECK(few.neighbours - few.made < 512);
  CHECK(many.neighbours - many.made < 512);
  // What the first check would see if flows were there from the start.
  CHECK(many.all - many.made > (kMany - 1) * 128);
}
