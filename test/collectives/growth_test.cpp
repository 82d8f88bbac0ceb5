// What a process makes and gives back leaves nothing behind, however often: no table of Anello's grows over the life of
// a process.
#include "support/catch.h"
#include "support/knob.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"

#include <array>
#include <functional>
#include <string>
#include <utility>

#include <malloc.h>

using namespace anello::test;

namespace {

long allocated() {
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<long>(now.uordblks + now.hblkhd);
}

// Bytes by which two ranks grow while each does something so many times, after a tenth of that to warm up. By night
// GROWTH_TIMES=10.
long growth(const char* transports, int usual, const std::function<void(const Rank&)>& once) {
  const int times = usual * int(anello::testing::knob("GROWTH_TIMES", 1));
  long before = 0, after = 0;
  const std::string wrong = run_ranks(
      2, transports,
      [&](const Rank& me) {
    const auto repeat = [&](int count) {
      for (int i = 0; i < count; ++i) once(me);
      me.ok(anello_barrier(me.comm), "barrier");
    };
    repeat(times / 10);
    if (me.rank == 0) before = allocated();
    me.ok(anello_barrier(me.comm), "barrier");
    repeat(times);
    if (me.rank == 0) after = allocated();
    me.ok(anello_barrier(me.comm), "barrier");
      },
      60'000);
  CHECK(wrong == "");
  return after - before;
}

void use(const Rank& me, anello_comm_t comm) {
  float x = 1;
  me.ok(anello_allreduce(ANELLO_IN_PLACE, &x, 1, ANELLO_FLOAT32, ANELLO_SUM, comm), "allreduce");
}

// A message that nobody receives is still on its way, or kept, when its communicator goes.
void leave_a_message(const Rank& me, anello_comm_t comm) {
  const int value = me.rank;
  me.ok(anello_send(&value, 1, ANELLO_INT32, 1 - me.rank, 5, comm), "send");
}

}  // namespace

// One more entry of a hash table for each would be 100 KB.
TEST_CASE("thousands of communicators leave no memory behind") {
  if (kMemoryFactor != 1) {
    WARN("SKIPPED: a sanitizer's allocator does not say how much is in use");
    return;
  }
  const auto destroyed = [](const Rank& me, anello_comm_t comm) {
    use(me, comm);
    leave_a_message(me, comm);
    me.ok(anello_comm_destroy(comm), "destroy");
  };
  const auto dup = [&](const Rank& me) {
    anello_comm_t made = ANELLO_COMM_NULL;
    me.ok(anello_comm_dup(me.comm, &made), "dup");
    destroyed(me, made);
  };
  const auto split = [&](const Rank& me) {
    anello_comm_t made = ANELLO_COMM_NULL;
    me.ok(anello_comm_split(me.comm, 3, -me.rank, &made), "split");
    destroyed(me, made);
  };
  const auto group = [&](const Rank& me) {
    anello_comm_t made = ANELLO_COMM_NULL;
    const std::array<int, 2> both{0, 1};
    me.ok(anello_comm_create_group(me.comm, 2, both.data(), 7, &made), "create_group");
    destroyed(me, made);
  };
  CHECK(growth("inproc", 2'000, dup) < 32 * 1024);
  CHECK(growth("tcp", 1'000, dup) < 32 * 1024);
  CHECK(growth("inproc", 1'000, split) < 32 * 1024);
  CHECK(growth("inproc", 1'000, group) < 32 * 1024);
}

TEST_CASE("thousands of anything else that is made and freed leave no memory behind") {
  if (kMemoryFactor != 1) {
    WARN("SKIPPED: a sanitizer's allocator does not say how much is in use");
    return;
  }
  const auto operation = [](const Rank& me) {
    anello_op_config_t config = ANELLO_OP_CONFIG_INITIALIZER;
    config.function = [](void*, void*, const void*, const void*, size_t, anello_dtype_t) {};
    config.name = "either";
    anello_op_t op{};
    me.ok(anello_op_create(&config, &op), "op_create");
    me.ok(anello_op_free(op), "op_free");
  };
  const auto request = [](const Rank& me) {
    anello_request_t once = ANELLO_REQUEST_NULL, again = ANELLO_REQUEST_NULL;
    float x = 1, y = 1;
    me.ok(anello_iallreduce(ANELLO_IN_PLACE, &x, 1, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &once), "iallreduce");
    me.ok(anello_wait(&once, nullptr), "wait");
    me.ok(anello_allreduce_init(ANELLO_IN_PLACE, &y, 1, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &again), "init");
    me.ok(anello_request_free(&again), "request_free");
  };
  const auto memory = [](const Rank& me) {
    void* pointer = nullptr;
    me.ok(anello_mem_alloc(4096, &pointer), "mem_alloc");
    me.ok(anello_mem_free(pointer), "mem_free");
  };
  const auto window = [](const Rank& me) {
    void* base = nullptr;
    anello_window_t made = ANELLO_WINDOW_NULL;
    me.ok(anello_window_create(4096, me.comm, &base, &made), "window_create");
    me.ok(anello_window_free(&made), "window_free");
  };
  CHECK(growth("inproc", 2'000, operation) < 32 * 1024);
  CHECK(growth("inproc", 2'000, request) < 32 * 1024);
  CHECK(growth("inproc", 2'000, memory) < 32 * 1024);
  CHECK(growth("inproc", 500, window) < 32 * 1024);
}
