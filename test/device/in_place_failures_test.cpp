// Calls in place on devices that do not end well: in bounded time, every rank hears what has happened and which rank it
// was, and what the device has not ended is said.
#include "device/in_place_buffer.h"
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <thread>

#include <signal.h>
#include <sys/wait.h>

using namespace failures;
using namespace anello::test;

namespace {

constexpr std::size_t kFloats = 250'000;
constexpr int kRanks = 3;

anello_result_t sum(void* buffer, anello_comm_t comm) {
  return anello_allreduce(ANELLO_IN_PLACE, buffer, kFloats, ANELLO_FLOAT32, ANELLO_SUM, comm);
}

// Rank 0's kernels do the work, and do not end. Says how the call ends, and whether the buffer is the caller's then.
const Role held("held", [](Rank& me) {
  const anello_comm_t comm = me.create(me.rank() == 0 ? me.number("timeout", 20'000) : 20'000);
  const Bytes ones(kFloats * sizeof(float), 1);
  Buffer buffer(ones);
  me.check(sum(buffer.data(), comm), "a call before", comm);
  if (me.rank() == 0) hold_kernels(true);
  me.check(anello_barrier(comm), "barrier", comm);
  me.say("ready");
  std::thread later;
  const int release_ms = me.number("release", -1);
  if (me.rank() == 0 && release_ms >= 0) {
    later = std::thread([release_ms] {
      sleep_ms(release_ms);
      hold_kernels(false);
    });
  }
  std::thread aborter;
  if (me.number("aborts", -1) == me.rank()) {
    aborter = std::thread([comm] {
      sleep_ms(100);
      anello_comm_abort(comm, "enough");
    });
  }
  const std::int64_t begin = now_ns();
  me.report("result", sum(buffer.data(), comm), comm);
  me.say("took ", (now_ns() - begin) / 1'000'000);
  buffer.put(ones);
  sleep_ms(200);
  me.say(buffer.holds(ones) ? "intact" : "stored to");
  if (later.joinable()) later.join();
  if (aborter.joinable()) aborter.join();
  // A peer that hears of the end later must not find that this process, or what its device does, has ended.
  if (me.number("stays", 0) != 0) me.hear();
  if (me.rank() == 0) hold_kernels(false);
  anello_comm_destroy(comm);
  me.say("done");
});

const Role failing("failing", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t other = ANELLO_COMM_NULL;
  me.check(anello_comm_dup(comm, &other), "dup", comm);
  Buffer buffer(Bytes(kFloats * sizeof(float), 1));
  me.check(sum(buffer.data(), comm), "a call before", comm);
  if (me.rank() == 0) fail_device_call(me.setting("call").c_str(), 719);
  // All are done with that call before rank 0 fails; and the failure does not end this barrier.
  me.check(anello_barrier(other), "barrier", other);
  me.report("result", sum(buffer.data(), comm), comm);
  if (me.rank() == 0) fail_device_call(me.setting("call").c_str(), 0);
  anello_comm_destroy(comm);
  anello_comm_destroy(other);
  me.say("done");
});

void leave(Ranks& ranks) {
  for (int rank = 0; rank < kRanks; ++rank) ranks.tell(rank, "leave");
  ranks.finish();
}

std::int64_t took(Ranks& ranks, int rank) { return std::stoll(ranks.expect(rank, "took").text.substr(5)); }

}  // namespace

TEST_CASE("kernels that never end: a deadline, the device, and what may still be stored", "[fake]") {
  Ranks ranks(kRanks, "held", "shm", {{"timeout", "1000"}, {"stays", "1"}});
  ranks.expect_all("ready");
  for (int rank = 0; rank < kRanks; ++rank) {
    const Line result = ranks.expect(rank, "result ANELLO_ERR_TIMEOUT");
    INFO(result.text);
    CHECK(result.has("on rank 0 made no progress"));
    CHECK(result.has("it waits for its own work on device 0"));
    CHECK(result.has(rank == 0 ? "device 0 has not ended" : "rank 0 (host"));
    CHECK(took(ranks, rank) < 6000);
    ranks.next(rank);
  }
  leave(ranks);
}

TEST_CASE("an abort while a device works: nothing is stored once the call has returned", "[fake]") {
  Ranks ranks(kRanks, "held", "shm", {{"release", "500"}, {"aborts", "1"}});
  ranks.expect_all("ready");
  for (int rank = 0; rank < kRanks; ++rank) {
    const Line result = ranks.expect(rank, "result ANELLO_ERR_ABORTED");
    INFO(result.text);
    CHECK(result.has("enough"));
    CHECK_FALSE(result.has("not ended"));
    const std::int64_t ms = took(ranks, rank);
    CHECK(ms >= 300);
    CHECK(ms < 3000);
    ranks.expect(rank, "intact");
  }
  ranks.finish();
}

TEST_CASE("an abort while a device hangs says that it does", "[fake]") {
  Ranks ranks(kRanks, "held", "shm", {{"aborts", "1"}, {"stays", "1"}});
  ranks.expect_all("ready");
  for (int rank = 0; rank < kRanks; ++rank) {
    const Line result = ranks.expect(rank, "result ANELLO_ERR_ABORTED");
    INFO(result.text);
    CHECK(result.has("not ended"));
    CHECK(took(ranks, rank) < 5000);
    ranks.next(rank);
  }
  leave(ranks);
}

TEST_CASE("a rank is killed while another one's device works in its memory", "[fake]") {
  // Of rank 2 nothing more is needed, so that the call ends well; of rank 0 the result.
  for (const int victim : {2, 0}) {
    Ranks ranks(kRanks, "held", "shm", {{"release", "500"}});
    ranks.expect_all("ready");
    sleep_ms(100);
    const std::int64_t at = ranks.signal(victim, SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const Line result = ranks.expect(rank, victim == 0 ? "result ANELLO_ERR_PEER_LOST" : "result ANELLO_OK");
      INFO(result.text);
      if (victim == 0) CHECK(result.has("rank 0 (host"));
      CHECK(result.time_ns - at < 5'000'000'000);
      took(ranks, rank);
      ranks.expect(rank, "intact");
      ranks.expect(rank, "done");
      ranks.wait(rank);
    }
    ranks.wait(victim);
  }
}

TEST_CASE("a device that refuses a kernel, or fails in one, names its rank", "[fake]") {
  for (const char* const call : {"cuLaunchKernel", "cuStreamWriteValue32_v2"}) {
    Ranks ranks(kRanks, "failing", "shm", {{"call", call}});
    for (int rank = 0; rank < kRanks; ++rank) {
      const Line result = ranks.expect(rank, "result ANELLO_ERR_SYSTEM");
      INFO(result.text);
      CHECK(result.has("(719)"));
      CHECK(result.has("rank 0 (host"));
    }
    ranks.finish();
  }
}
