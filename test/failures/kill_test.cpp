// A rank is killed at some moment of a collective: the others hear of it at once, by name, and nobody stores into what
// they get back.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"
#include "support/sanitizers.h"

#include <algorithm>
#include <iostream>
#include <random>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace failures;

namespace {

std::int64_t limit_ms() { return 1000 * anello::test::kTimeFactor * slowness(); }
constexpr std::int64_t kCanaryMs = 200;

struct Work {
  const char* kind;
  std::size_t count;  // of the part of one rank, float32
};
const Work kWorks[] = {{"allreduce", 2},         {"allreduce", 5'000},   {"allreduce", 4'000'000},
                       {"broadcast", 1'000'000}, {"allgather", 300'000}, {"reduce_scatter_block", 300'000},
                       {"alltoall", 300'000},    {"barrier", 0},         {"messages", 50'000}};

anello_result_t messages(Rank& me, const float* input, float* output, std::size_t count, anello_comm_t comm) {
  anello_request_t requests[2] = {};
  const int right = (me.rank() + 1) % me.size(), left = (me.rank() + me.size() - 1) % me.size();
  anello_result_t result = anello_irecv(output, count, ANELLO_FLOAT32, left, 7, comm, &requests[0]);
  if (result == ANELLO_OK) result = anello_isend(input, count, ANELLO_FLOAT32, right, 7, comm, &requests[1]);
  const anello_result_t waited = anello_wait_all(2, requests, nullptr);
  return result != ANELLO_OK ? result : waited;
}

anello_result_t once(Rank& me, const std::string& kind, std::size_t count, const Memory& in, const Memory& out,
                     anello_comm_t comm) {
  const float* const input = in.as<float>();
  float* const output = out.as<float>();
  if (kind == "allreduce") return anello_allreduce(input, output, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
  if (kind == "broadcast") return anello_broadcast(output, count, ANELLO_FLOAT32, me.number("root", 0), comm);
  if (kind == "allgather") return anello_allgather(input, output, count, ANELLO_FLOAT32, comm);
  if (kind == "alltoall") return anello_alltoall(input, output, count, ANELLO_FLOAT32, comm);
  if (kind == "barrier") return anello_barrier(comm);
  if (kind == "messages") return messages(me, input, output, count, comm);
  return anello_reduce_scatter_block(input, output, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
}

// Holds what its parent held until the judge lets go of standard input.
void leave_child_behind() {
  if (::fork() != 0) return;
  ::alarm(60);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  ::_exit(0);
}

const Role killed("killed", [](Rank& me) {
  const anello_comm_t comm = me.create(20'000 * slowness());
  if (me.number("forks", -1) == me.rank()) leave_child_behind();
  const std::string kind = me.setting("kind");
  const auto count = static_cast<std::size_t>(me.number("count", 0));
  const bool mapped = me.number("mapped", 0) != 0;
  const Memory input((count * std::size_t(me.size()) + 1) * sizeof(float), mapped), output(input.bytes(), mapped);
  std::fill_n(input.as<float>(), input.bytes() / sizeof(float), 1.0f);
  std::fill_n(output.as<float>(), output.bytes() / sizeof(float), 0.0f);
  me.check(once(me, kind, count, input, output, comm), "the first " + kind, comm);
  me.say("running");
  anello_result_t result = ANELLO_OK;
  while (result == ANELLO_OK) result = once(me, kind, count, input, output, comm);
  const std::int64_t time = now_ns();
  Canary::fill(input.as<void>(), input.bytes());
  Canary::fill(output.as<void>(), output.bytes());
  me.say_at(time, "failed ", anello_result_name(result), " ", anello_last_error(comm));
  sleep_ms(kCanaryMs);
  me.say("input ", Canary::look(input.as<void>(), input.bytes()));
  me.say("output ", Canary::look(output.as<void>(), output.bytes()));
  me.report("again", once(me, kind, count, input, output, comm), comm);
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

// An adapter of tools/rdma-vm moves some 50 MB/s, and here it would know of a death after a minute: in a slow machine,
// too, a rank that is named within the limit was named by control.
void adapt(Settings& settings, std::size_t count) {
  settings["count"] = std::to_string(count > 100 ? count / 10 : count);
  settings["ANELLO_VERBS_TIMEOUT"] = "21";
}

void kill_one(const std::string& transport, const Work& work, bool forks, bool mapped, std::mt19937_64& random,
              std::vector<std::int64_t>& times_us) {
  const int ranks = 2 + int(random() % 3);
  const int victim = int(random() % std::uint64_t(ranks));
  const std::int64_t moment_us = std::int64_t(random() % 40'000);
  const int root = int(random() % std::uint64_t(ranks));
  INFO(transport << (mapped ? ", mapped memory, " : ", ") << work.kind << " of " << work.count << ", " << ranks
                 << " ranks, root " << root << ", rank " << victim << (forks ? " (with a child)" : "")
                 << " killed after " << moment_us << " us");
  Settings settings{{"kind", work.kind}, {"count", std::to_string(work.count)}, {"root", std::to_string(root)}};
  if (transport == "verbs") adapt(settings, work.count);
  if (mapped) settings["mapped"] = "1";
  if (forks) settings["forks"] = std::to_string(victim);
  Ranks job(ranks, "killed", transport, settings);
  job.expect_all("running");
  ::usleep(static_cast<useconds_t>(moment_us));
  std::vector<std::int64_t> unserved_ns;
  for (int rank = 0; rank < ranks; ++rank) unserved_ns.push_back(job.unserved_ns(rank));
  const std::int64_t killed_ns = job.signal(victim, SIGKILL);
  const std::string name = "rank " + std::to_string(victim) + " ";
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const Line line = job.expect(rank, "failed");
    const std::int64_t took_us = (line.time_ns - killed_ns) / 1000;
    times_us.push_back(took_us);
    INFO("rank " << rank << " after " << took_us << " us: " << line.text);
    CHECK(line.begins("failed ANELLO_ERR_PEER_LOST "));
    CHECK(line.has(name));
    CHECK(took_us - (job.unserved_ns(rank) - unserved_ns[std::size_t(rank)]) / 1000 < limit_ms() * 1000);
    CHECK_FALSE(line.has("does not answer"));  // control tells it, not an adapter that has given up
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    CHECK(job.next(rank).text == "input intact");
    CHECK(job.next(rank).text == "output intact");
    CHECK(job.next(rank).begins("again ANELLO_ERR_PEER_LOST"));
    CHECK(job.next(rank).begins("destroyed ANELLO_ERR_PEER_LOST"));
    job.expect(rank, "done");
    CHECK(job.wait(rank) == 0);  // above all not by SIGPIPE
  }
  CHECK(WTERMSIG(job.wait(victim)) == SIGKILL);
}

// A job in which nobody has called anything yet, so that no data connections exist.
const Role silent("silent", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const int victim = me.number("victim", 0);
  const std::string kind = me.setting("kind");
  std::vector<float> numbers(std::size_t(me.number("count", 0)), 1.0f);
  me.say("running");
  me.hear();
  anello_result_t result = ANELLO_OK;
  if (me.rank() == victim) {
    me.report("destroyed", anello_comm_destroy(comm), comm);  // if it was not killed
    return;
  }
  if (kind == "send") {
    result = anello_send(numbers.data(), numbers.size(), ANELLO_FLOAT32, victim, 7, comm);
    // A small one goes before it is known that nobody takes it.
    if (result == ANELLO_OK)
      result = anello_recv(numbers.data(), numbers.size(), ANELLO_FLOAT32, victim, 7, comm, nullptr);
  } else if (kind == "recv") {
    result = anello_recv(numbers.data(), numbers.size(), ANELLO_FLOAT32, victim, 7, comm, nullptr);
  } else {
    result = anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_SUM, comm);
  }
  me.report("result", result, comm);
  me.hear();
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

enum class End { killed_first, killed_then, left };

void end_silent(const std::string& kind, std::size_t count, End end) {
  constexpr int kRanks = 3, kVictim = 2;
  INFO(kind << " of " << count << ", rank " << kVictim
            << (end == End::left           ? " leaves before"
                : end == End::killed_first ? " is killed before"
                                           : " is killed during")
            << " it");
  Ranks job(kRanks, "silent", "tcp",
            {{"kind", kind}, {"count", std::to_string(count)}, {"victim", std::to_string(kVictim)}});
  job.expect_all("running");
  const auto end_victim = [&] {
    if (end != End::left) return job.signal(kVictim, SIGKILL);
    job.tell(kVictim, "leave");
    return job.expect(kVictim, "destroyed ANELLO_OK").time_ns;
  };
  std::int64_t ended_ns = end == End::killed_then ? 0 : end_victim();
  if (end != End::killed_then) ::usleep(200'000);
  const std::int64_t called_ns = now_ns(), unserved_ns[kVictim] = {job.unserved_ns(0), job.unserved_ns(1)};
  for (int rank = 0; rank < kVictim; ++rank) job.tell(rank, "go");
  if (end == End::killed_then) {
    ::usleep(200'000);
    ended_ns = end_victim();
  }
  for (int rank = 0; rank < kVictim; ++rank) {
    const Line line = job.expect(rank, "result");
    const std::int64_t took_ms = (line.time_ns - std::max(called_ns, ended_ns)) / 1'000'000;
    const std::int64_t unserved_ms = (job.unserved_ns(rank) - unserved_ns[rank]) / 1'000'000;
    job.tell(rank, "leave");
    INFO("rank " << rank << " after " << took_ms << " ms: " << line.text);
    CHECK(line.begins("result ANELLO_ERR_PEER_LOST "));
    CHECK(line.has("rank 2 (host"));
    if (end == End::left) CHECK(line.has("left the job"));
    CHECK(took_ms - unserved_ms < limit_ms());
    job.expect(rank, "destroyed ANELLO_ERR_PEER_LOST");
    job.expect(rank, "done");
  }
}

void kill_many(const std::string& transport, bool mapped = false) {
  const auto seed = std::uint64_t(knob("FAILURE_SEED", now_ns()));
  const auto kills = std::size_t(knob("FAILURE_KILLS", 18));
  std::cout << transport << ": FAILURE_SEED=" << seed << " FAILURE_KILLS=" << kills << std::endl;
  INFO("FAILURE_SEED=" << seed << " FAILURE_KILLS=" << kills);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> times_us;
  for (std::size_t i = 0; i < kills; ++i) {
    kill_one(transport, kWorks[i % std::size(kWorks)], i / std::size(kWorks) % 2 == 1, mapped, random, times_us);
  }
  std::sort(times_us.begin(), times_us.end());
  std::cout << transport << ": " << times_us.size() << " survivors heard of " << kills << " deaths after "
            << times_us.front() << " us at best, " << times_us[times_us.size() / 2] << " us at the median, "
            << times_us.back() << " us at worst" << std::endl;
}

}  // namespace

TEST_CASE("a rank that is killed is named to every survivor within a second, over shared memory") { kill_many("shm"); }

TEST_CASE("a rank that is killed is named to every survivor within a second, over memory that all have mapped") {
  kill_many("shm", true);
}

TEST_CASE("a rank that is killed is named to every survivor within a second, over TCP") { kill_many("tcp"); }

// In tools/rdma-vm.
TEST_CASE("a rank that is killed is named to every survivor, over verbs", "[.adapter]") { kill_many("verbs"); }

TEST_CASE("a rank that ends before anything was sent is named to every other within a second, over TCP") {
  for (const End end : {End::killed_first, End::killed_then, End::left}) {
    end_silent("recv", 2, end);
    end_silent("send", 2, end);
    end_silent("send", 100'000, end);
    end_silent("allreduce", 2, end);
    end_silent("allreduce", 100'000, end);
  }
}
