// A rank whose process ends after its last call, in whatever way: what it had given for that call stays given, and
// nobody else is left in an error. What still needs the rank ends at once, and names it.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"
#include "support/sanitizers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace failures;

namespace {

constexpr std::int64_t kLimitMs = 1000 * anello::test::kTimeFactor;
const char* const kWays[] = {"return", "exit", "_exit", "kill"};

void end(const std::string& way) {
  if (way == "exit") std::exit(0);
  if (way == "_exit") ::_exit(0);
  if (way == "kill") ::kill(::getpid(), SIGKILL);
}

// What every rank has in its output after the call, at the last element.
bool is_right(Rank& me, const std::string& kind, const float* output, std::size_t count) {
  const auto size = std::size_t(me.size());
  const float all = float(me.size() * (me.size() + 1)) / 2;
  if (count == 0) return true;
  if (kind == "allreduce") return output[count - 1] == all;
  if (kind == "broadcast") return output[count - 1] == 1;
  if (kind == "allgather" || kind == "alltoall") return output[count * size - 1] == float(me.size());
  return output[count - 1] == all;
}

anello_result_t call(Rank& me, const std::string& kind, const Memory& in, const Memory& out, std::size_t count,
                     anello_comm_t comm) {
  float* const input = in.as<float>();
  float* const output = out.as<float>();
  std::fill_n(input, count * std::size_t(me.size()), float(me.rank() + 1));
  if (kind == "allreduce") return anello_allreduce(input, output, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
  if (kind == "allgather") return anello_allgather(input, output, count, ANELLO_FLOAT32, comm);
  if (kind == "alltoall") return anello_alltoall(input, output, count, ANELLO_FLOAT32, comm);
  if (kind == "barrier") return anello_barrier(comm);
  if (kind == "broadcast") {
    std::fill_n(output, count, float(me.rank() + 1));
    return anello_broadcast(output, count, ANELLO_FLOAT32, 0, comm);
  }
  return anello_reduce_scatter_block(input, output, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
}

// All ranks end right after the call.
const Role ending("ending", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::string kind = me.setting("kind"), way = me.setting("way");
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  const bool mapped = me.number("mapped", 0) != 0;
  const Memory in((count + 1) * std::size_t(me.size()) * sizeof(float), mapped), out(in.bytes(), mapped);
  for (int round = me.number("rounds", 1); round > 0; --round) {
    const anello_result_t result = call(me, kind, in, out, count, comm);
    if (result != ANELLO_OK) return me.report("result", result, comm);
  }
  me.say(is_right(me, kind, out.as<float>(), count) ? "right" : "wrong");
  end(way);
});

// Rank 0 gives and ends; the others take later, when its end is known.
const Role giving_and_ending("giving_and_ending", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::string kind = me.setting("kind"), way = me.setting("way");
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  std::vector<float> values(count + 1, float(me.rank() + 1));
  me.check(anello_barrier(comm), "barrier", comm);
  if (me.rank() == 0) {
    for (int peer = 1; peer < me.size() && kind == "send"; ++peer) {
      me.check(anello_send(values.data(), count, ANELLO_FLOAT32, peer, 0, comm), "send", comm);
    }
    if (kind == "broadcast")
      me.check(anello_broadcast(values.data(), count, ANELLO_FLOAT32, 0, comm), "broadcast", comm);
    if (kind == "reduce")
      me.check(anello_reduce(values.data(), nullptr, count, ANELLO_FLOAT32, ANELLO_SUM, me.size() - 1, comm), "reduce",
               comm);
    me.say("given");
    return end(way);
  }
  me.hear();
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  for (const std::int64_t end = now_ns() + 10'000'000'000; error.lost_count == 0 && now_ns() < end; sleep_ms(2)) {
    me.check(anello_error_info(comm, &error), "error_info", comm);
  }
  me.check(error.lost_count == 1 && error.lost[0] == 0, "rank 0 is known to be lost");
  me.check(error.code == ANELLO_OK, "which alone is no error");
  anello_result_t result = ANELLO_OK;
  float expected = 1;
  if (kind == "send") result = anello_recv(values.data(), count, ANELLO_FLOAT32, 0, 0, comm, nullptr);
  if (kind == "broadcast") result = anello_broadcast(values.data(), count, ANELLO_FLOAT32, 0, comm);
  if (kind == "reduce") {
    std::vector<float> sum(count + 1);
    result = anello_reduce(values.data(), sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.size() - 1, comm);
    expected = me.rank() == me.size() - 1 ? float(me.size() * (me.size() + 1)) / 2 : 0;
    values = sum;
  }
  me.report("took", result, comm);
  me.check(result != ANELLO_OK || values[count - 1] == expected, "what came");
  // Those that are left still reach each other.
  const int other = me.size() - me.rank();
  if (me.size() == 3) {
    float mine = float(me.rank()), its = 0;
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.check(anello_isend(&mine, 1, ANELLO_FLOAT32, other, 9, comm, &request), "isend", comm);
    me.check(anello_recv(&its, 1, ANELLO_FLOAT32, other, 9, comm, nullptr), "recv", comm);
    me.check(anello_wait(&request, nullptr), "wait", comm);
    me.check(its == float(other), "what the other one sent");
  }
  me.say("together");
  me.hear();
  const std::int64_t begin = now_ns();
  const std::string last = me.setting("last");
  if (last == "send") {
    result = anello_send(values.data(), 1, ANELLO_FLOAT32, 0, 0, comm);
  } else if (last == "recv") {
    result = anello_recv(values.data(), 1, ANELLO_FLOAT32, 0, 0, comm, nullptr);
  } else {
    result = anello_barrier(comm);
  }
  me.say("last ", anello_result_name(result), " after ", (now_ns() - begin) / 1'000'000,
         " ms: ", anello_last_error(comm));
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

// Fails, or is told of it, and ends at once.
const Role told_and_ending("told_and_ending", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  const std::string cause = me.setting("cause"), way = me.setting("way");
  std::vector<float> values(count + 1, 1), results(count + 1);
  anello_result_t result = anello_barrier(comm);
  if (result != ANELLO_OK) {
    // Others are out of it before.
  } else if (me.rank() == me.number("odd", 0)) {
    if (cause == "abort") result = anello_comm_abort(comm, "enough");
    if (cause == "mismatch")
      result = anello_allreduce(values.data(), results.data(), count, ANELLO_FLOAT32, ANELLO_MAX, comm);
  } else {
    result = anello_allreduce(values.data(), results.data(), count, ANELLO_FLOAT32, ANELLO_SUM, comm);
  }
  me.report("result", result, comm);
  end(way);
});

// The victim has not come to the call that the others wait in.
const Role awaiting_a_victim("awaiting_a_victim", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<float> values(1000, 1);
  me.check(anello_allreduce(ANELLO_IN_PLACE, values.data(), values.size(), ANELLO_FLOAT32, ANELLO_SUM, comm),
           "allreduce", comm);
  me.say("running");
  if (me.rank() == me.number("victim", 0)) {
    me.hear();
    return;
  }
  me.report("result", anello_allreduce(ANELLO_IN_PLACE, values.data(), values.size(), ANELLO_FLOAT32, ANELLO_SUM, comm),
            comm);
  ::_exit(0);
});

void all_end(const std::string& transport, const std::string& kind, std::size_t count, const std::string& way,
             int rounds, bool mapped, Settings more = {}) {
  INFO(transport << (mapped ? ", mapped memory, " : ", ") << rounds << " " << kind << " of " << count << ", ended by "
                 << way);
  more.insert({{"kind", kind},
               {"count", std::to_string(count)},
               {"way", way},
               {"rounds", std::to_string(rounds)},
               {"mapped", mapped ? "1" : "0"}});
  Ranks job(3, "ending", transport, more);
  for (int rank = 0; rank < 3; ++rank) {
    INFO("rank " << rank);
    CHECK(job.next(rank).text == "right");
  }
  for (int rank = 0; rank < 3; ++rank) {
    const int status = job.wait(rank);
    CHECK((way == "kill" ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0));
  }
}

void all_end_in_each_way(const std::string& transport, bool mapped, const Settings& more = {}) {
  const auto repeats = knob("FAILURE_ENDS", 1);
  for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
    for (const char* way : kWays) {
      all_end(transport, "allreduce", 100, way, 1, mapped, more);
      all_end(transport, "allreduce", 300'000, way, 2, mapped, more);
      all_end(transport, "barrier", 0, way, 1, mapped, more);
    }
    for (const char* kind : {"broadcast", "allgather", "alltoall", "reduce_scatter_block"}) {
      all_end(transport, kind, 100, "_exit", 2, mapped, more);
      all_end(transport, kind, 50'000, "kill", 2, mapped, more);
    }
  }
}

void give_and_end(const std::string& transport, const std::string& kind, std::size_t count, const std::string& way,
                  const std::string& last) {
  INFO(transport << ", " << kind << " of " << count << ", ended by " << way << ", then " << last);
  Ranks job(3, "giving_and_ending", transport,
            {{"kind", kind}, {"count", std::to_string(count)}, {"way", way}, {"last", last}});
  job.expect(0, "given");
  job.wait(0);
  for (int rank = 1; rank < 3; ++rank) job.tell(rank, "take");
  for (int rank = 1; rank < 3; ++rank) CHECK(job.next(rank).begins("took ANELLO_OK"));
  for (int rank = 1; rank < 3; ++rank) job.expect(rank, "together");
  for (int rank = 1; rank < 3; ++rank) job.tell(rank, "the last one");
  for (int rank = 1; rank < 3; ++rank) {
    const Line line = job.next(rank);
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("last ANELLO_ERR_PEER_LOST after "));
    CHECK(line.has("rank 0 (host"));
    std::int64_t took_ms = -1;
    std::istringstream(line.text.substr(std::strlen("last ANELLO_ERR_PEER_LOST after "))) >> took_ms;
    CHECK(took_ms >= 0);
    CHECK(took_ms < kLimitMs);
    job.expect(rank, "destroyed ANELLO_ERR_PEER_LOST");
    job.expect(rank, "done");
  }
}

void first_cause_is_told(const std::string& transport, const std::string& cause, const std::string& code) {
  const auto repeats = knob("FAILURE_ENDS", 6);
  for (std::int64_t i = 0; i < repeats; ++i) {
    const char* const way = kWays[i % 4];
    const int odd = int(i % 3);
    const std::size_t count = i % 2 == 0 ? 10 : 100'000;
    INFO(transport << ", " << cause << " by rank " << odd << ", count " << count << ", ended by " << way);
    Ranks job(3, "told_and_ending", transport,
              {{"cause", cause}, {"count", std::to_string(count)}, {"way", way}, {"odd", std::to_string(odd)}});
    for (int rank = 0; rank < 3; ++rank) {
      const Line line = job.next(rank);
      INFO("rank " << rank << ": " << line.text);
      CHECK(line.begins("result " + (rank == odd && cause == "abort" ? "ANELLO_OK" : code)));
    }
  }
}

void tell_deaths(const std::string& transport) {
  const auto deaths = knob("FAILURE_DEATHS", 12);
  std::vector<std::int64_t> times_us;
  for (std::int64_t i = 0; i < deaths; ++i) {
    const int victim = int(i % 3);
    Ranks job(3, "awaiting_a_victim", transport, {{"victim", std::to_string(victim)}});
    job.expect_all("running");
    sleep_ms(30);
    const std::int64_t killed_ns = job.signal(victim, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const Line line = job.expect(rank, "result ANELLO_ERR_PEER_LOST");
      INFO(line.text);
      CHECK(line.has("rank " + std::to_string(victim) + " (host"));
      times_us.push_back((line.time_ns - killed_ns) / 1000);
    }
  }
  std::sort(times_us.begin(), times_us.end());
  const auto part = [&](double of) { return times_us[std::size_t(double(times_us.size() - 1) * of)]; };
  std::cout << transport << ": " << deaths << " deaths were told after " << part(0.5) << " us (p50), " << part(0.99)
            << " us (p99), " << times_us.back() << " us at worst" << std::endl;
  // A tenth of the half second that a timer had taken, for machines that have other things to do.
  CHECK(part(0.5) < 50'000);
}

}  // namespace

TEST_CASE("a death is told by what closes, and by no timer") {
  for (const char* transport : {"shm", "tcp"}) tell_deaths(transport);
}

TEST_CASE("the first cause is what all report, though those that were told of it end at once") {
  for (const char* transport : {"shm", "tcp"}) {
    first_cause_is_told(transport, "mismatch", "ANELLO_ERR_MISMATCH");
    first_cause_is_told(transport, "abort", "ANELLO_ERR_ABORTED");
  }
}

TEST_CASE("ranks that end after their last call leave nobody in an error, over shared memory") {
  all_end_in_each_way("shm", false);
}

TEST_CASE("ranks that end after their last call leave nobody in an error, over memory that all have mapped") {
  all_end_in_each_way("shm", true);
}

TEST_CASE("ranks that end after their last call leave nobody in an error, over staging memory") {
  all_end_in_each_way("shm", false, {{"ANELLO_STAGING", "always"}});
}

TEST_CASE("ranks that end after their last call leave nobody in an error, over TCP") {
  all_end_in_each_way("tcp", false);
}

TEST_CASE("what a rank gave before it ended can be taken when its end is known, and no more") {
  for (const char* transport : {"shm", "tcp"}) {
    for (const char* way : kWays) {
      give_and_end(transport, "send", 100, way, "barrier");
      give_and_end(transport, "send", 1'900, way, "recv");  // less than any machine waits with for its receive
    }
    give_and_end(transport, "broadcast", 10, "_exit", "send");
    give_and_end(transport, "reduce", 10, "kill", "barrier");
  }
}
