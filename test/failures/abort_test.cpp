// One thread aborts a communicator while all ranks are inside a collective on it; its sibling on the same lanes goes
// on.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"
#include "support/sanitizers.h"

#include <algorithm>
#include <thread>

#include <signal.h>
#include <sys/wait.h>

using namespace failures;

namespace {

const Role aborted("aborted", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t sibling = ANELLO_COMM_NULL;
  me.check(anello_comm_dup(comm, &sibling), "dup", comm);
  std::vector<float> numbers(std::size_t(me.number("count", 0)), 1.0f);
  const bool tests = me.number("tests", 0) != 0;
  const auto sum = [&] {
    if (!tests)
      return anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_MAX, comm);
    anello_request_t request = ANELLO_REQUEST_NULL;
    anello_result_t result =
        anello_iallreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_MAX, comm, &request);
    for (int done = 0; result == ANELLO_OK && done == 0;) result = anello_test(&request, &done, nullptr);
    return result;
  };
  me.check(sum(), "the first allreduce", comm);
  std::thread listener([&] {
    if (me.hear() != "abort") return;
    const std::int64_t time = now_ns();
    const anello_result_t result = anello_comm_abort(comm, "enough of this");
    me.say_at(time, "abort ", anello_result_name(result), " took ", (now_ns() - time) / 1000, " us");
  });
  me.say("running");
  anello_result_t result = ANELLO_OK;
  while (result == ANELLO_OK) result = sum();
  const std::int64_t time = now_ns();
  Canary::fill(numbers.data(), numbers.size() * sizeof(float));
  listener.join();
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  me.check(anello_error_info(comm, &error), "error info", comm);
  me.say_at(time, "ended ", anello_result_name(result), " about ", error.rank, ": ", anello_last_error(comm));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int32_t> others(round % 2 == 0 ? 3 : 200'000);
    for (std::size_t i = 0; i < others.size(); ++i) others[i] = std::int32_t(i) + me.rank() + round;
    const std::int32_t ranks = me.size();
    if (!me.check(anello_allreduce(ANELLO_IN_PLACE, others.data(), others.size(), ANELLO_INT32, ANELLO_SUM, sibling),
                  "the sibling's allreduce", sibling)) {
      return;
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (others[i] == (std::int32_t(i) + round) * ranks + ranks * (ranks - 1) / 2) continue;
      me.check(false, "wrong sum on the sibling in round " + std::to_string(round) + " at " + std::to_string(i));
      return;
    }
  }
  me.check(Canary::look(numbers.data(), numbers.size() * sizeof(float)) == "intact",
           "buffer of the aborted call: " + Canary::look(numbers.data(), numbers.size() * sizeof(float)));
  me.check(sum() == ANELLO_ERR_ABORTED, "a call after the abort");
  me.check(anello_comm_destroy(comm) == ANELLO_ERR_ABORTED, "destroy after the abort");
  me.check(anello_comm_destroy(sibling), "destroy of the sibling", sibling);
});

void abort_one(const std::string& transport, int ranks, int aborting, std::size_t count, std::int64_t after_ms) {
  INFO(transport << ", " << ranks << " ranks, rank " << aborting << " aborts, count " << count);
  Ranks job(ranks, "aborted", transport, {{"count", std::to_string(count)}});
  job.expect_all("running");
  sleep_ms(after_ms);
  job.tell(aborting, "abort");
  const Line abort = job.expect(aborting, "abort ANELLO_OK");
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != aborting) job.tell(rank, "be quiet");
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const Line line = job.expect(rank, "ended");
    const std::int64_t took_ms = (line.time_ns - abort.time_ns) / 1'000'000;
    INFO("rank " << rank << " after " << took_ms << " ms: " << line.text);
    CHECK(line.begins("ended ANELLO_ERR_ABORTED"));
    CHECK(line.has(" about " + std::to_string(aborting) + ": rank " + std::to_string(aborting) + " "));
    CHECK(line.has("enough of this"));
    CHECK(took_ms < 1000 * anello::test::kTimeFactor);
  }
  job.finish();
}

// Rank 0, which passes on what ranks tell each other, is stopped when another one aborts.
void abort_past_stopped(const std::string& transport, std::size_t count, bool tests) {
  INFO(transport << ", count " << count << (tests ? ", by tests" : ""));
  Ranks job(4, "aborted", transport, {{"count", std::to_string(count)}, {"tests", tests ? "1" : "0"}});
  job.expect_all("running");
  job.signal(0, SIGSTOP);
  sleep_ms(20);
  job.tell(1, "abort");
  const Line abort = job.expect(1, "abort ANELLO_OK");
  for (const int rank : {0, 2, 3}) job.tell(rank, "be quiet");
  for (const int rank : {1, 2, 3}) {
    const Line line = job.expect(rank, "ended", 10'000);
    const std::int64_t took_ms = (line.time_ns - abort.time_ns) / 1'000'000;
    INFO("rank " << rank << " after " << took_ms << " ms: " << line.text);
    CHECK(line.begins("ended ANELLO_ERR_ABORTED"));
    CHECK(line.has(" about 1: rank 1 "));
    CHECK(line.has("enough of this"));
    CHECK(took_ms < 1000 * anello::test::kTimeFactor);
  }
  job.signal(0, SIGCONT);
  CHECK(job.expect(0, "ended").has("enough of this"));
  job.finish();
}

// Rank 0 is stopped, and rank 1 aborts one communicator. Who waits there for a receive of rank 0, and for a message on
// another one as well, hears of it.
const Role between("between", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t sibling = ANELLO_COMM_NULL;
  me.check(anello_comm_dup(comm, &sibling), "dup", comm);
  me.check(anello_barrier(comm), "barrier", comm);
  me.say("running");
  if (me.rank() == 2) {
    std::vector<float> large(1'000'000, 1.0f);
    char small = 0;
    anello_request_t requests[2];
    me.check(anello_isend(large.data(), large.size(), ANELLO_FLOAT32, 0, 1, comm, &requests[0]), "isend", comm);
    me.check(anello_irecv(&small, 1, ANELLO_BYTE, 1, 1, sibling, &requests[1]), "irecv", sibling);
    int index = -1;
    const anello_result_t result = anello_wait_any(2, requests, &index, nullptr);
    me.say("ended ", anello_result_name(result), " of ", index);
    me.check(anello_wait(&requests[1], nullptr), "wait", sibling);
  } else {
    const bool aborts = me.hear() == "abort";
    if (aborts) me.check(anello_comm_abort(comm, "enough of this"), "abort", comm);
    if (aborts) me.hear();
    if (me.rank() == 1) me.check(anello_send("x", 1, ANELLO_BYTE, 2, 1, sibling), "send", sibling);
  }
  me.check(anello_barrier(sibling), "barrier", sibling);
  anello_comm_destroy(comm);
  me.check(anello_comm_destroy(sibling), "destroy", sibling);
});

// Rank 0, stopped, dies with what rank 1 said of a communicator that it is no member of.
const Role unsaid("unsaid", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t others = ANELLO_COMM_NULL;
  me.check(anello_comm_split(comm, me.rank() == 0 ? ANELLO_UNDEFINED : 1, me.rank(), &others), "split", comm);
  me.check(anello_barrier(comm), "barrier", comm);
  me.say("running");
  if (me.rank() == 1) {
    me.hear();
    me.check(anello_comm_abort(others, "enough of this"), "abort", others);
    me.say("aborted");
    me.hear();
  } else if (me.rank() != 0) {
    std::int32_t one = 1;
    const anello_result_t result = anello_recv(&one, 1, ANELLO_INT32, 0, 0, others, nullptr);
    me.say("ended ", anello_result_name(result), ": ", anello_last_error(others));
  } else {
    me.hear();
  }
  if (others != ANELLO_COMM_NULL) anello_comm_destroy(others);
  anello_comm_destroy(comm);
});

// A thread sleeps in a call when another one aborts: it must not sleep on until its next look at the clock.
const Role asleep("asleep", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::int64_t worst_us = 0;
  for (int round = 0; round < 5; ++round) {
    anello_comm_t mine = ANELLO_COMM_NULL;
    me.check(anello_comm_dup(comm, &mine), "dup", comm);
    if (me.rank() == 0) {
      std::int64_t returned_ns = 0;
      std::thread waiting([&] {
        char byte = 0;
        me.check(anello_recv(&byte, 1, ANELLO_UINT8, 1, 0, mine, nullptr) == ANELLO_ERR_ABORTED, "the wait's result");
        returned_ns = now_ns();
      });
      sleep_ms(400);
      const std::int64_t begin = now_ns();
      me.check(anello_comm_abort(mine, nullptr), "abort", mine);
      waiting.join();
      worst_us = std::max(worst_us, (returned_ns - begin) / 1000);
    } else {
      // The abort travels beside the data: the barrier could overtake it, and destroy come before it.
      char byte = 0;
      me.check(anello_recv(&byte, 1, ANELLO_UINT8, 0, 0, mine, nullptr) == ANELLO_ERR_ABORTED, "the other rank's wait");
    }
    me.check(anello_barrier(comm), "barrier", comm);
    me.check(anello_comm_destroy(mine) == ANELLO_ERR_ABORTED, "destroy of the aborted");
  }
  me.check(worst_us < 40'000, "a sleeping call returned " + std::to_string(worst_us) + " us after the abort");
  me.check(anello_comm_destroy(comm), "destroy", comm);
});

}  // namespace

TEST_CASE("abort ends a collective on all ranks and leaves the sibling on the same lanes intact") {
  for (const char* transport : {"shm", "tcp"}) {
    abort_one(transport, 2, 1, 8'000'000, 15);
    abort_one(transport, 4, 2, 4'000'000, 23);
    abort_one(transport, 3, 0, 4, 7);
  }
}

TEST_CASE("abort ends a collective also where the rank that passes the news on is stopped") {
  for (const bool tests : {false, true}) {
    for (const char* transport : {"shm", "tcp"}) {
      for (const std::size_t count : {4, 4'000'000}) abort_past_stopped(transport, count, tests);
    }
  }
}

TEST_CASE(
    "abort is heard by who waits for another communicator, too, though the rank that passes the news on is stopped") {
  Ranks job(3, "between", "shm");
  job.expect_all("running");
  job.signal(0, SIGSTOP);
  job.tell(1, "abort");
  CHECK(job.expect(2, "ended", 5'000).begins("ended ANELLO_ERR_ABORTED of 0"));
  job.tell(1, "go on");
  job.signal(0, SIGCONT);
  job.tell(0, "go on");
  job.finish();
}

TEST_CASE("abort is heard though the rank that passes the news on dies with it") {
  Ranks job(4, "unsaid", "tcp");
  job.expect_all("running");
  job.signal(0, SIGSTOP);
  sleep_ms(20);
  job.tell(1, "abort");
  job.expect(1, "aborted");
  job.signal(0, SIGKILL);
  for (const int rank : {2, 3}) {
    const Line line = job.expect(rank, "ended", 5'000);
    INFO(line.text);
    CHECK(line.begins("ended ANELLO_ERR_ABORTED"));
    CHECK(line.has("enough of this"));
  }
  job.tell(1, "end");
  for (const int rank : {1, 2, 3}) {
    job.expect(rank, "done");
    CHECK(job.wait(rank) == 0);
  }
  CHECK(WTERMSIG(job.wait(0)) == SIGKILL);
}

TEST_CASE("abort wakes a call that sleeps") {
  Ranks job(2, "asleep", "tcp");
  job.finish();
}
