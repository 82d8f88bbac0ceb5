// Ranks that do not come, stop for a while, or are busy elsewhere.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <memory>
#include <thread>
#include <vector>

#include <signal.h>

using namespace failures;

namespace {

anello_call_t sum_call(std::vector<std::int32_t>& numbers, std::int64_t timeout_ms) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_INT32;
  call.op = ANELLO_SUM;
  call.sendbuf = ANELLO_IN_PLACE;
  call.recvbuf = numbers.data();
  call.count = numbers.size();
  call.timeout_ms = timeout_ms;
  return call;
}

const Role awaiting("awaiting", [](Rank& me) {
  const anello_comm_t comm = me.create();
  me.check(anello_barrier(comm), "barrier", comm);
  std::vector<std::int32_t> numbers(std::size_t(me.number("count", 0)), 1);
  const bool late = me.number("late", -1) == me.rank();
  if (late) me.hear();
  const anello_call_t call = sum_call(numbers, 500);
  const std::int64_t begin = now_ns();
  const anello_result_t result = anello_post(comm, &call, nullptr);
  const std::int64_t took_ms = (now_ns() - begin) / 1'000'000;
  me.report("result", result, comm);
  // What the others had sent before they gave up may be all that the late one needs for this call; not for the next.
  if (late && result == ANELLO_OK) me.report("result", anello_barrier(comm), comm);
  if (!late) me.check(took_ms >= 450, "a deadline of 500 ms passed after " + std::to_string(took_ms));
  // Up to a second of it is the wait for the late one to leave the caller's buffer; the rest, a busy machine.
  if (!late) me.check(took_ms < 10'000, "a deadline of 500 ms passed after " + std::to_string(took_ms));
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

void await_one(const std::string& transport, int ranks, int late, std::size_t count) {
  INFO(transport << ", " << ranks << " ranks, rank " << late << " does not come, count " << count);
  Ranks job(ranks, "awaiting", transport, {{"count", std::to_string(count)}, {"late", std::to_string(late)}});
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == late) continue;
    const Line line = job.expect(rank, "result");
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("result ANELLO_ERR_TIMEOUT"));
    CHECK(line.has("rank " + std::to_string(late) + " (host"));
  }
  job.tell(late, "come");
  Line line = job.next(late);
  if (line.begins("result ANELLO_OK")) line = job.next(late);
  INFO(line.text);
  CHECK(line.begins("result ANELLO_ERR_TIMEOUT"));
  job.expect_all("destroyed ANELLO_ERR_TIMEOUT");
  job.finish();
}

// Rank 0 or 1 does not run, rank 2 waits for it in a reduce, and the other one for rank 2 in the broadcast after that.
const Role behind("behind", [](Rank& me) {
  const anello_comm_t comm = me.create();
  me.check(anello_barrier(comm), "barrier", comm);
  me.say("running");
  me.hear();
  std::vector<float> numbers(1000, 1.0f), sums(1000);
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_REDUCE;
  call.algorithm = "tree";
  call.dtype = ANELLO_FLOAT32;
  call.sendbuf = numbers.data();
  call.recvbuf = sums.data();
  call.count = numbers.size();
  call.peer = 2;
  call.timeout_ms = 20'000;
  anello_result_t result = anello_post(comm, &call, nullptr);
  if (me.rank() == 1 - me.number("stopped", 1)) {
    me.check(result, "reduce", comm);
    call.kind = ANELLO_BROADCAST;
    call.sendbuf = call.recvbuf = numbers.data();
    call.timeout_ms = 500;
    result = anello_post(comm, &call, nullptr);
  }
  me.report("result", result, comm);
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

// Rank 1 sends nothing until it is told to: once rank 0 has said its result. Rank 0 waits with a deadline of 500 ms, in
// ways in which something else of its own might keep it from looking at the clock. What has no such deadline waits
// longer than the judge does.
const Role beside("beside", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t other = ANELLO_COMM_NULL, brief = ANELLO_COMM_NULL;
  me.check(anello_comm_dup(comm, &other), "dup", comm);
  me.check(anello_comm_dup(comm, &brief), "dup", comm);
  // News that a communicator was destroyed makes who drives look at the clock more often, and leave less of it to the
  // others.
  std::int32_t note = 0;  // over a lane, on which that news comes
  me.check(me.rank() == 0 ? anello_send(&note, 1, ANELLO_INT32, 1, 0, brief)
                          : anello_recv(&note, 1, ANELLO_INT32, 0, 0, brief, nullptr),
           "a message", brief);
  if (me.rank() == 1) me.check(anello_comm_destroy(brief), "destroy", brief);
  me.check(anello_barrier(comm), "barrier", comm);
  const std::string way = me.setting("way");
  constexpr std::int64_t kLongMs = 60'000;
  std::int32_t one = 1, two = 2, three = 3;
  const auto with_deadline = [](anello_kind_t kind, int peer, void* buffer, std::int64_t timeout_ms) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = kind;
    call.dtype = ANELLO_INT32;
    call.peer = peer;
    call.count = 1;
    call.timeout_ms = timeout_ms;
    call.recvbuf = buffer;
    call.sendbuf = kind == ANELLO_ALLREDUCE ? ANELLO_IN_PLACE : buffer;
    return call;
  };
  if (me.rank() == 1) {
    me.hear();
    // What nobody waits for any more may be refused.
    anello_send(&one, 1, ANELLO_INT32, 0, 0, comm);
    me.hear();
    anello_comm_destroy(other);
    anello_comm_destroy(comm);
    return;
  }
  anello_request_t requests[2] = {ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
  if (way == "another thread drives") {
    std::thread driver([&] {
      const anello_call_t call = with_deadline(ANELLO_RECV, 1, &one, kLongMs);
      anello_post(comm, &call, nullptr);
    });
    sleep_ms(200);
    const anello_call_t call = with_deadline(ANELLO_RECV, 1, &two, 500);
    me.report("result", anello_post(other, &call, nullptr), other);
    driver.join();
  } else if (way == "any of two") {
    const anello_call_t soon = with_deadline(ANELLO_RECV, 1, &two, 500),
                        late = with_deadline(ANELLO_RECV, 1, &one, kLongMs);
    me.check(anello_post(other, &soon, &requests[0]), "irecv", other);
    me.check(anello_post(comm, &late, &requests[1]), "irecv", comm);
    int index = -1;
    me.report("result", anello_wait_any(2, requests, &index, nullptr), other);
    me.check(index == 0, "wait_any gave " + std::to_string(index));
    anello_wait(&requests[1], nullptr);
  } else {
    // Nobody waits at all: a send to this rank itself, or the second of two collectives.
    const bool to_self = way == "to itself";
    const anello_call_t late = with_deadline(ANELLO_ALLREDUCE, 0, &one, kLongMs);
    std::vector<std::int32_t> many(1'000'000);
    anello_call_t soon =
        with_deadline(to_self ? ANELLO_SEND : ANELLO_ALLREDUCE, 0, to_self ? many.data() : &three, 500);
    if (to_self) soon.count = many.size();  // a small one goes at once
    if (!to_self) me.check(anello_post(other, &late, &requests[0]), "iallreduce", other);
    me.check(anello_post(other, &soon, &requests[1]), "the one with the deadline", other);
    anello_result_t result = ANELLO_OK;
    for (const std::int64_t begin = now_ns(); result == ANELLO_OK && now_ns() - begin < kLongMs * 1'000'000;) {
      anello_progress(other);
      sleep_ms(1);
      anello_error_t error = ANELLO_ERROR_INITIALIZER;
      anello_error_info(other, &error);
      result = error.code;
    }
    me.report("result", result, other);
    for (anello_request_t& request : requests) {
      if (request != ANELLO_REQUEST_NULL) anello_wait(&request, nullptr);
    }
  }
  anello_comm_destroy(brief);
  anello_comm_destroy(other);
  anello_comm_destroy(comm);
});

const Role stopped("stopped", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<std::int32_t> numbers(std::size_t(me.number("count", 0)));
  const std::int64_t end = now_ns() + 2'500'000'000;
  std::int32_t rounds = 0, stop = 0;
  while (stop == 0) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::int32_t(i) * (me.rank() + 1) + rounds;
    me.check(anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_INT32, ANELLO_SUM, comm),
             "allreduce", comm);
    const std::int32_t all = me.size() * (me.size() + 1) / 2;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == std::int32_t(i) * all + rounds * me.size()) continue;
      me.check(false, "wrong sum in round " + std::to_string(rounds) + " at " + std::to_string(i));
      return;
    }
    if (rounds++ == 0) me.say("running");
    stop = now_ns() > end ? 1 : 0;
    me.check(anello_allreduce(ANELLO_IN_PLACE, &stop, 1, ANELLO_INT32, ANELLO_MAX, comm), "allreduce", comm);
  }
  me.check(anello_comm_destroy(comm), "destroy", comm);
});

// Rank 1 computes while rank 0 sends to it for the first time: at least until rank 0 has said that it has sent.
const Role computing("computing", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<std::int32_t> numbers(100'000, 0);
  std::int32_t one = 0;
  if (me.rank() == 0) {
    one = 42;
    me.check(anello_send(&one, 1, ANELLO_INT32, 1, 1, comm), "a small send", comm);
    me.say("sent");
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::int32_t(i);
    me.check(anello_send(numbers.data(), numbers.size(), ANELLO_INT32, 1, 2, comm), "a large send", comm);
  } else if (me.rank() == 1) {
    const std::int64_t end = now_ns() + me.number("compute_ms", 3000) * 1'000'000ll;
    volatile double x = 1;
    while (now_ns() < end) x = x * 1.0000001;
    me.hear();
    me.check(anello_recv(&one, 1, ANELLO_INT32, 0, 1, comm, nullptr), "a small recv", comm);
    me.check(one == 42, "a small message");
    me.check(anello_recv(numbers.data(), numbers.size(), ANELLO_INT32, 0, 2, comm, nullptr), "a large recv", comm);
    me.check(numbers.back() == 99'999, "a large message");
  }
  me.check(anello_barrier(comm), "barrier", comm);
  me.check(anello_comm_destroy(comm), "destroy", comm);
});

}  // namespace

TEST_CASE("a rank that does not come is named when the deadline passes") {
  for (const char* transport : {"shm", "tcp"}) {
    await_one(transport, 2, 1, 4);
    await_one(transport, 3, 2, 300'000);
    await_one(transport, 4, 1, 4);
    await_one(transport, 4, 0, 300'000);
  }
}

TEST_CASE("a rank that does not run is named by who waits for one that waits for it") {
  const std::string transport = GENERATE("shm", "tcp");
  const int quiet = GENERATE(1, 0);  // 0 is the one that passes questions and answers on
  const int waiting = 1 - quiet;
  INFO(transport << ", rank " << quiet << " is stopped");
  Ranks job(3, "behind", transport, {{"stopped", std::to_string(quiet)}});
  job.expect_all("running");
  job.signal(quiet, SIGSTOP);
  for (int rank = 0; rank < 3; ++rank) job.tell(rank, "go on");
  for (const int rank : {waiting, 2}) {
    const Line line = job.expect(rank, "result");
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("result ANELLO_ERR_TIMEOUT"));
    CHECK(line.has("it waits for data from rank 2 (host"));
    CHECK(line.has("; rank " + std::to_string(quiet) + " (host"));
    CHECK(line.has(", which is stopped by a signal or a debugger, not answering"));
    CHECK(line.has("; rank 2 (host"));
    CHECK(line.has(" not having come to this operation"));
  }
  job.signal(quiet, SIGCONT);
  // Its part of the reduce is to send; it may be gone before it hears more.
  job.expect(quiet, "result");
  job.expect(quiet, "destroyed");
  for (const int rank : {waiting, 2}) job.expect(rank, "destroyed ANELLO_ERR_TIMEOUT");
  job.finish();
}

TEST_CASE("a deadline is kept whatever else the rank waits for, or if it does not wait") {
  const std::string way = GENERATE("another thread drives", "any of two", "to itself", "the second of two");
  INFO(way);
  Ranks job(2, "beside", "shm", {{"way", way}});
  const Line result = job.expect(0, "result");
  INFO(result.text);
  CHECK(result.begins("result ANELLO_ERR_TIMEOUT"));
  job.tell(1, "send");
  job.tell(1, "end");
  job.finish();
}

TEST_CASE("a rank that is stopped for less than the deadline does no harm") {
  // All at a time: they sleep more than they do anything.
  std::vector<std::unique_ptr<Ranks>> jobs;
  for (const char* transport : {"shm", "tcp"})
    for (const char* count : {"16", "300000"})
      jobs.push_back(std::make_unique<Ranks>(3, "stopped", transport, Settings{{"count", count}}));
  for (const auto& job : jobs) job->expect_all("running");
  for (const auto& job : jobs) job->signal(1, SIGSTOP);
  sleep_ms(1500);
  for (const auto& job : jobs) job->signal(1, SIGCONT);
  for (const auto& job : jobs) job->finish();
}

TEST_CASE("a rank that computes while another connects to it does no harm") {
  const Settings settings{{"compute_ms", std::to_string(knob("FAILURE_COMPUTE_MS", 4000))}};
  Ranks over_shm(2, "computing", "shm", settings), over_tcp(2, "computing", "tcp", settings);
  for (Ranks* const job : {&over_shm, &over_tcp}) {
    job->expect(0, "sent");
    job->tell(1, "rank 0 has sent");
    job->finish();
  }
}
