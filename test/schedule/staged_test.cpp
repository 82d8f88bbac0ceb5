// Schedules over staging memory in many rounds: lines are 64 bytes, so that vectors of a few elements are one.
#include "schedule/builder.h"
#include "schedule/simulate.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace anello::schedule;

namespace {

bool is_staged(const Algorithm& algorithm) { return algorithm.name == "staged"; }

Topology with_staging(int size, std::size_t bytes, bool oversubscribed) {
  Topology topology = meeting(size);
  topology.staging_bytes = bytes;
  topology.oversubscribed = oversubscribed;
  return topology;
}

std::size_t barriers_of(const Schedule& schedule) {
  return std::size_t(std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                   [](const Step& step) { return step.kind == Kind::barrier; }));
}

// The same steps said again, but for one barrier, on all ranks.
std::vector<Schedule> without_barrier(const std::vector<Schedule>& right, const Call& call, const Topology& topology,
                                      std::size_t omitted) {
  std::vector<Schedule> faulty;
  for (int rank = 0; rank < topology.size; ++rank) {
    const Schedule& own = right[std::size_t(rank)];
    Builder steps("test", call, topology, rank);
    steps.stages(own.staging, own.staging_comes_back);
    std::size_t met = 0;
    for (const Step& step : own.steps) {
      if (step.kind == Kind::copy) steps.copy(step.into, step.from);
      if (step.among)
        steps.reduce_staged_among(step.among, step.into, step.from, step.staged, step.shown, step.shown_in);
      if (step.kind == Kind::reduce_staged && !step.among)
        steps.reduce_staged(step.into, step.from, step.staged, step.shown, step.shown_in);
      if (step.kind == Kind::barrier && met++ != omitted) steps.barrier();
    }
    faulty.push_back(std::move(steps).build());
  }
  return faulty;
}

}  // namespace

TEST_CASE("what goes through staging memory in many rounds gives the right result in every order of events") {
  std::size_t simulated = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!is_staged(algorithm)) continue;
    for (const int size : {2, 3, 4})
      for (const bool oversubscribed : {false, true})
        for (const std::size_t count : {200u, 641u, 1500u})
          for (const int place : {0, 1, 2})
            for (const std::size_t staging_bytes : {std::size_t(128 * size), std::size_t(5000)}) {
              Call call = a_call(algorithm.collective, count);
              call.in_place = place > 0 && call.collective != Collective::broadcast;
              call.own_part = place > 1;
              if (call.own_part && call.collective != Collective::reduce_scatter) continue;
              call.root = has_root(call.collective) ? size / 2 : 0;
              const Topology topology = with_staging(size, staging_bytes, oversubscribed);
              REQUIRE(algorithm.fits(call, topology));
              INFO(algorithm.name << " " << describe(call) << ", " << size << " ranks, " << staging_bytes << " bytes");
              const std::vector<Schedule> schedules = make_all(algorithm, call, topology, 64);
              REQUIRE(barriers_of(schedules[0]) > 1);
              for (std::uint64_t seed = 1; seed <= 3; ++seed) {
                REQUIRE(simulate(call, topology, schedules, {seed, 100, -1, 0}).problem == "");
                ++simulated;
              }
            }
  }
  CHECK(simulated > 1000);
}

namespace {

// Ranks on these processors, several on some.
Topology sharing(std::vector<int> processors_of, std::size_t staging_bytes) {
  Topology topology = with_staging(int(processors_of.size()), staging_bytes, true);
  topology.processors_of = std::move(processors_of);
  return topology;
}

}  // namespace

TEST_CASE(
    "a processor's ranks reduce among themselves, and one sum of theirs goes to the others, in every order of events") {
  const Algorithm& algorithm = *find(Collective::allreduce, "staged_leaders");
  CHECK_FALSE(algorithm.fits(a_call(Collective::allreduce, 200), with_staging(4, 5000, true)));
  for (const std::vector<int>& processors_of :
       {std::vector<int>{0, 1, 0, 1}, {0, 0, 1}, {0, 1, 1, 1, 2, 0}, {0, 0, 0, 1, 1, 1, 0, 1}})
    for (const std::size_t count : {1u, 70u, 200u, 641u, 1500u})
      for (const bool in_place : {false, true})
        for (const bool finish : {false, true})
          for (const std::size_t staging_bytes : {std::size_t(128 * processors_of.size()), std::size_t(5000)}) {
            Call call = a_call(Collective::allreduce, count);
            call.in_place = in_place;
            call.finish = finish;
            const Topology topology = sharing(processors_of, staging_bytes);
            REQUIRE(algorithm.fits(call, topology));
            INFO(describe(call) << ", " << processors_of.size() << " ranks, " << staging_bytes << " bytes");
            const std::vector<Schedule> schedules = make_all(algorithm, call, topology, 64);
            for (std::uint64_t seed = 1; seed <= 3; ++seed)
              REQUIRE(simulate(call, topology, schedules, {seed, 100, -1, 0}).problem == "");
          }
}

TEST_CASE("half of a vector that a processor's ranks have reduced goes to the other processor, whatever their number") {
  for (const int size : {4, 8}) {
    Call call = a_call(Collective::allreduce, 1280);
    std::vector<int> processors_of;
    for (int rank = 0; rank < size; ++rank) processors_of.push_back(rank % 2);
    const Topology topology = sharing(processors_of, 5000);
    std::size_t crossing = 0;
    for (const Schedule& schedule : make_all(*find(Collective::allreduce, "staged_leaders"), call, topology, 128))
      for (const Step& step : schedule.steps)
        if (step.among && (*step.among)[0] % 2 != (*step.among)[1] % 2) crossing += step.into.count;
    CHECK(crossing == call.count);
  }
}

TEST_CASE("two ranks with less staging memory than two lines take rounds of what there is") {
  const Algorithm& algorithm = *find(Collective::allreduce, "staged");
  const Call call = a_call(Collective::allreduce, 641);
  for (const std::size_t staging_bytes : {64u, 100u, 128u}) {
    const Topology topology = with_staging(2, staging_bytes, false);
    REQUIRE(algorithm.fits(call, topology));
    REQUIRE(simulate(call, topology, make_all(algorithm, call, topology, 64)).problem == "");
  }
}

TEST_CASE("a barrier that is left out between rounds over staging memory is found") {
  for (const Collective collective : {Collective::allgather, Collective::alltoall}) {
    Call call = a_call(collective, 640);
    const Topology topology = with_staging(2, 5000, false);
    const std::vector<Schedule> right = make_all(*find(collective, "staged"), call, topology, 64);
    REQUIRE(simulate(call, topology, right).problem == "");
    REQUIRE(barriers_of(right[0]) == 10);
    for (std::size_t omitted = 0; omitted < barriers_of(right[0]); ++omitted) {
      INFO(describe(call) << " without barrier " << omitted);
      REQUIRE(simulate(call, topology, without_barrier(right, call, topology, omitted)).problem != "");
    }
  }
}

TEST_CASE("a barrier that is left out between a processor's ranks and the others is found") {
  Call call = a_call(Collective::allreduce, 640);
  const Topology topology = sharing({0, 1, 0, 1}, 5000);
  const std::vector<Schedule> right = make_all(*find(Collective::allreduce, "staged_leaders"), call, topology, 64);
  REQUIRE(barriers_of(right[0]) == 10 + 3);
  REQUIRE(simulate(call, topology, without_barrier(right, call, topology, SIZE_MAX)).problem == "");
  for (std::size_t omitted = 0; omitted < barriers_of(right[0]); ++omitted) {
    INFO("without barrier " << omitted);
    REQUIRE(simulate(call, topology, without_barrier(right, call, topology, omitted)).problem != "");
  }
}

TEST_CASE("memory that is said to come back may have no peer in it after the last barrier") {
  for (const bool comes_back : {false, true}) {
    Call call = a_call(Collective::broadcast, 64);
    const Topology topology = with_staging(2, 5000, false);
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 2; ++rank) {
      Builder steps("test", call, topology, rank);
      steps.stages(64, comes_back);
      if (rank == 0) steps.copy({Buffer::staging, 0, 64}, {Buffer::output, 0, 64});
      steps.barrier();
      if (rank == 1) steps.copy({Buffer::output, 0, 64}, {Buffer::staging, 0, 64, 0});
      schedules.push_back(std::move(steps).build());
    }
    const std::string problem = simulate(call, topology, schedules).problem;
    CHECK((problem.find("may have taken back") != std::string::npos) == comes_back);
  }
}
