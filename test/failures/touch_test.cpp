// Peers load and store each other's buffers, and one of them is stopped in the middle: whoever gives up gets his buffers
// back for himself, also when the stopped one goes on.
#include <catch2/catch.hpp>

#include "failures/judge.h"
#include "failures/rank.h"

#include <algorithm>
#include <iostream>
#include <random>

#include <signal.h>
#include <unistd.h>

using namespace failures;

namespace {

constexpr std::int64_t kTimeoutMs = 200;

const Role touching("touching", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  const bool mapped = me.number("mapped", 0) != 0;
  const Memory input(count * sizeof(float), mapped), output(count * sizeof(float), mapped);
  std::fill_n(input.as<float>(), count, 1.0f);
  std::fill_n(output.as<float>(), count, 0.0f);
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_FLOAT32;
  call.op = ANELLO_SUM;
  call.sendbuf = me.number("in_place", 0) != 0 ? ANELLO_IN_PLACE : input.as<void>();
  call.recvbuf = output.as<void>();
  call.count = count;
  call.timeout_ms = 20'000;
  me.check(anello_post(comm, &call, nullptr), "the first allreduce", comm);
  me.say("running");
  call.timeout_ms = kTimeoutMs;
  anello_result_t result = ANELLO_OK;
  while (result == ANELLO_OK) result = anello_post(comm, &call, nullptr);
  Canary::fill(input.as<void>(), input.bytes());
  Canary::fill(output.as<void>(), output.bytes());
  me.say("failed ", anello_result_name(result), " ", anello_last_error(comm));
  me.hear();  // the stopped rank goes on
  sleep_ms(150);
  me.say("input ", Canary::look(input.as<void>(), input.bytes()));
  me.say("output ", Canary::look(output.as<void>(), output.bytes()));
  anello_comm_destroy(comm);
});

// Whether a survivor was told that its memory was exchanged.
bool stop_one(std::mt19937_64& random, bool mapped) {
  const int ranks = 2 + int(random() % 2);
  const int victim = int(random() % std::uint64_t(ranks));
  const std::int64_t moment_us = std::int64_t(random() % 20'000);
  const std::size_t count = random() % 3 == 0 ? 100'000 : 8'000'000;
  const bool in_place = random() % 2 == 0;
  INFO(ranks << " ranks, " << (mapped ? "mapped, " : "read, ") << count << " elements" << (in_place ? " in place" : "") << ", rank " << victim << " stopped after "
             << moment_us << " us");
  Ranks job(ranks, "touching", "shm",
            {{"count", std::to_string(count)}, {"in_place", in_place ? "1" : "0"}, {"mapped", mapped ? "1" : "0"},
             {"ANELLO_ALGORITHM", mapped ? "direct" : "attach"}});
  job.expect_all("running");
  ::usleep(static_cast<useconds_t>(moment_us));
  job.signal(victim, SIGSTOP);
  bool exchanged = false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const Line line = job.expect(rank, "failed");
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("failed ANELLO_ERR_TIMEOUT "));
    CHECK(line.has("rank " + std::to_string(victim) + " "));
    CHECK_FALSE(line.has("do not use it"));
    exchanged = exchanged || line.has("was exchanged for a copy");
  }
  job.signal(victim, SIGCONT);
  CHECK(job.expect(victim, "failed").begins("failed ANELLO_ERR_TIMEOUT "));
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
  std::size_t exchanged = 0, made = 0;
  // A third to a half of all stops are: of few, none may be.
  for (; made < stops || (exchanged == 0 && made < 5 * stops); ++made) exchanged += stop_one(random, true) ? 1 : 0;
  std::cout << "FAILURE_SEED=" << seed << ": " << exchanged << " of " << made
            << " stops were in the middle of a store, and survivors exchanged their memory" << std::endl;
  CHECK(exchanged > 0);
}

TEST_CASE("a rank that is stopped while it reads its peers' buffers does not hold them up for long, nor harm them") {
  const auto seed = std::uint64_t(knob("FAILURE_SEED", now_ns()));
  INFO("FAILURE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < knob("FAILURE_STOPS", 4); ++i) REQUIRE_FALSE(stop_one(random, false));
}
