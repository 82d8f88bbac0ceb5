// Peers load and store each other's buffers, and one of them is stopped in the middle: whoever gives up, or is told to
// by an abort, gets his buffers back for himself, also when the stopped one goes on.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <thread>

#include <signal.h>
#include <unistd.h>

using namespace failures;

namespace {

constexpr std::int64_t kTimeoutMs = 200;

struct Work {
  const char* name;
  anello_kind_t kind;
  bool of_parts;  // count is that of one rank's part
};
const Work kWorks[] = {
    {"allreduce", ANELLO_ALLREDUCE, false}, {"reduce_scatter_block", ANELLO_REDUCE_SCATTER_BLOCK, true},
    {"allgather", ANELLO_ALLGATHER, true},  {"alltoall", ANELLO_ALLTOALL, true},
    {"broadcast", ANELLO_BROADCAST, false}, {"reduce", ANELLO_REDUCE, false}};

// Made by this thread alone, or driven by whoever waits.
anello_result_t once(anello_comm_t comm, const anello_call_t& call, bool posted) {
  if (!posted) return anello_post(comm, &call, nullptr);
  anello_request_t request = ANELLO_REQUEST_NULL;
  const anello_result_t result = anello_post(comm, &call, &request);
  return result != ANELLO_OK ? result : anello_wait(&request, nullptr);
}

const Role touching("touching", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  const bool mapped = me.number("mapped", 0) != 0, posted = me.number("posted", 0) != 0;
  const Work& work = kWorks[me.number("work", 0)];
  const Memory input(count * sizeof(float), mapped), output(count * sizeof(float), mapped);
  std::fill_n(input.as<float>(), count, 1.0f);
  std::fill_n(output.as<float>(), count, 0.0f);
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = work.kind;
  call.dtype = ANELLO_FLOAT32;
  call.op = ANELLO_SUM;
  call.peer = me.size() - 1;
  call.sendbuf = me.number("in_place", 0) != 0 ? ANELLO_IN_PLACE : input.as<void>();
  call.recvbuf = output.as<void>();
  if (work.kind == ANELLO_BROADCAST) call.sendbuf = output.as<void>();
  call.count = work.of_parts ? count / std::size_t(me.size()) : count;
  call.timeout_ms = 20'000;
  me.check(once(comm, call, posted), "the first call", comm);
  std::thread listener([&] {
    if (me.hear() != "abort") return;
    me.check(anello_comm_abort(comm, "enough of this"), "abort", comm);
  });
  me.say("running");
  call.timeout_ms = me.number("timeout_ms", 0);
  anello_result_t result = ANELLO_OK;
  while (result == ANELLO_OK) result = once(comm, call, posted);
  Canary::fill(input.as<void>(), input.bytes());
  Canary::fill(output.as<void>(), output.bytes());
  listener.join();
  me.say("failed ", anello_result_name(result), " ", anello_last_error(comm));
  me.hear();  // the stopped rank goes on
  sleep_ms(150);
  me.say("input ", Canary::look(input.as<void>(), input.bytes()));
  me.say("output ", Canary::look(output.as<void>(), output.bytes()));
  anello_comm_destroy(comm);
});

enum class Ending { timeout, abort };

struct Stop {
  std::size_t work = 0;
  bool mapped = true;
  const char* algorithm = "direct";
  Ending ending = Ending::timeout;
};

// Whether a survivor was told that its memory was exchanged.
bool stop_one(std::mt19937_64& random, const Stop& stop) {
  const int ranks = 2 + int(random() % 2);
  const int victim = int(random() % std::uint64_t(ranks));
  const std::int64_t moment_us = std::int64_t(random() % 20'000);
  const std::size_t count = random() % 3 == 0 ? 100'000 : 8'000'000;
  const anello_kind_t kind = kWorks[stop.work].kind;
  const bool in_place = kind != ANELLO_BROADCAST && kind != ANELLO_REDUCE && random() % 2 == 0;
  const bool posted = random() % 3 == 0;
  const bool aborts = stop.ending == Ending::abort;
  const int aborting = (victim + 1 + int(random() % std::uint64_t(ranks - 1))) % ranks;
  // The stop may also find the victim about to hear of the abort.
  const std::int64_t abort_us = std::int64_t(random() % 2'000) - 300;
  INFO(kWorks[stop.work].name
       << (posted ? ", posted, " : ", ") << ranks << " ranks, " << (stop.mapped ? "mapped, " : "not mapped, ")
       << stop.algorithm << ", " << count << " elements" << (in_place ? " in place" : "") << ", rank " << victim
       << " stopped after " << moment_us << " us"
       << (aborts ? ", rank " + std::to_string(aborting) + " aborts " + std::to_string(abort_us) + " us later" : ""));
  Ranks job(ranks, "touching", "shm",
            {{"work", std::to_string(stop.work)},
             {"count", std::to_string(count)},
             {"in_place", in_place ? "1" : "0"},
             {"mapped", stop.mapped ? "1" : "0"},
             {"posted", posted ? "1" : "0"},
             {"timeout_ms", std::to_string(aborts ? 20'000 : kTimeoutMs)},
             {"ANELLO_ALGORITHM", stop.algorithm}});
  job.expect_all("running");
  for (int rank = 0; rank < ranks; ++rank) {
    if (!aborts || rank != aborting) job.tell(rank, "be quiet");
  }
  ::usleep(static_cast<useconds_t>(moment_us));
  if (aborts && abort_us < 0) {
    job.tell(aborting, "abort");
    ::usleep(static_cast<useconds_t>(-abort_us));
  }
  job.signal(victim, SIGSTOP);
  if (aborts && abort_us >= 0) {
    ::usleep(static_cast<useconds_t>(abort_us));
    job.tell(aborting, "abort");
  }
  const std::string error = aborts ? "failed ANELLO_ERR_ABORTED " : "failed ANELLO_ERR_TIMEOUT ";
  const std::string named = "rank " + std::to_string(aborts ? aborting : victim) + " ";
  bool exchanged = false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const Line line = job.expect(rank, "failed", 10'000);
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins(error));
    CHECK(line.has(named));
    CHECK_FALSE(line.has("do not use it"));
    // With the rank stopped that passes it on, nobody hears why.
    if (aborts && victim != 0) CHECK(line.has("enough of this"));
    exchanged = exchanged || line.has("was exchanged for a copy");
  }
  job.signal(victim, SIGCONT);
  CHECK(job.expect(victim, "failed").begins(error));
  for (int rank = 0; rank < ranks; ++rank) job.tell(rank, "look");
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(job.next(rank).text == "input intact");
    CHECK(job.next(rank).text == "output intact");
  }
  job.finish();
  return exchanged;
}

}  // namespace

TEST_CASE("a rank that is stopped at its peers' buffers stores nothing once their calls have returned") {
  const auto seed = std::uint64_t(knob("FAILURE_SEED", now_ns()));
  const auto stops = std::size_t(knob("FAILURE_STOPS", 8));
  INFO("FAILURE_SEED=" << seed << " FAILURE_STOPS=" << stops);
  std::mt19937_64 random(seed);
  for (const Ending ending : {Ending::timeout, Ending::abort}) {
    std::size_t exchanged = 0, made = 0;
    // A third to a half of all stops are: of few, none may be.
    for (; made < (stops + 1) / 2 || (exchanged == 0 && made < 5 * stops); ++made) {
      exchanged += stop_one(random, {.ending = ending}) ? 1 : 0;
    }
    std::cout << "FAILURE_SEED=" << seed << ": " << exchanged << " of " << made << " stops before "
              << (ending == Ending::abort ? "an abort" : "a timeout")
              << " were in the middle of a store, and survivors exchanged their memory" << std::endl;
    CHECK(exchanged > 0);
  }
}

TEST_CASE("a rank that is stopped while it reads its peers' buffers does not hold them up for long, nor harm them") {
  const auto seed = std::uint64_t(knob("FAILURE_SEED", now_ns()));
  INFO("FAILURE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < knob("FAILURE_STOPS", 4); ++i) {
    const Ending ending = i % 2 == 0 ? Ending::timeout : Ending::abort;
    REQUIRE_FALSE(stop_one(random, {.mapped = false, .algorithm = "attach", .ending = ending}));
  }
}

TEST_CASE(
    "whatever the call, the memory and the way, a rank that is stopped in it stores nothing once the others have "
    "returned") {
  const auto seed = std::uint64_t(knob("FAILURE_SEED", now_ns()));
  INFO("FAILURE_SEED=" << seed);
  std::mt19937_64 random(seed);
  // Mapped and by reading each other's memory, through staging memory, and by messages.
  const auto works = std::size(kWorks);
  const std::size_t first = random() % works;
  for (std::size_t i = 0; i < std::size_t(knob("FAILURE_STOPS", 6)); ++i) {
    Stop stop{.work = (first + i) % works};
    const std::size_t way = random() % 4;
    stop.mapped = way == 0;
    stop.algorithm = way <= 1 ? "direct" : way == 2 ? "staged" : "pairwise";
    stop.ending = random() % 2 == 0 ? Ending::timeout : Ending::abort;
    stop_one(random, stop);
  }
}
