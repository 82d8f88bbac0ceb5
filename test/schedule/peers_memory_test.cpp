// Schedules over peers' memory: every mixture of ranks in place and not, and what must be found where one is wrong.
#include "schedule/builder.h"
#include "schedule/simulate.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace anello::schedule;

namespace {

bool over_memory(const Algorithm& algorithm) {
  Call call = a_call(algorithm.collective, 4);
  if (is_varying(call.collective) || call.collective == Collective::barrier) return false;
  return !algorithm.fits(call, meeting(4)) && fits_within_reach(algorithm, call, meeting(4)) &&
         call.reach != Reach::none;
}

// Each rank's call; bit r of in_place is rank r's. Of a reduce_scatter every other result replaces its rank's own part.
std::vector<Call> mixture(Call call, int size, std::size_t in_place) {
  std::vector<Call> result;
  for (int rank = 0; rank < size; ++rank) {
    call.in_place = (in_place >> rank & 1) != 0;
    call.own_part =
        call.in_place && call.collective == Collective::reduce_scatter && (in_place / 2 + std::size_t(rank)) % 2 != 0;
    result.push_back(call);
  }
  return result;
}

std::vector<Schedule> made(const Algorithm& algorithm, const std::vector<Call>& calls, std::size_t chunk) {
  std::vector<Schedule> schedules;
  const Topology topology = meeting(static_cast<int>(calls.size()));
  for (int rank = 0; rank < topology.size; ++rank)
    schedules.push_back(algorithm.make(calls[static_cast<std::size_t>(rank)], topology, rank, chunk));
  return schedules;
}

// The problem of a schedule that `say(steps, rank)` says, for this call.
template <class Say>
std::string problem_of(const Call& call, int size, Say&& say) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) {
    Builder steps("test", call, meeting(size), rank);
    steps.touches_peers(true, true);
    say(steps, rank);
    schedules.push_back(std::move(steps).build());
  }
  return simulate(call, meeting(size), schedules).problem;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Call reaching(Collective collective, std::size_t count, Reach reach, bool in_place = false) {
  Call call = a_call(collective, count);
  call.reach = reach;
  call.in_place = in_place;
  return call;
}

}  // namespace

TEST_CASE("every mixture of ranks in place and not gives the right result over peers' memory") {
  std::size_t simulated = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!over_memory(algorithm)) continue;
    for (int size = 2; size <= 9; ++size)
      for (const std::size_t count : {1u, 2u, 3u, 7u, 64u, 65u, 129u, 641u})
        for (unsigned variant = 0; variant < (reduces(algorithm.collective) ? 4u : 1u); ++variant)
          for (std::size_t in_place = 0; in_place<(1u << size); in_place += size> 5 ? 37 : 1) {
            Call call = a_call(algorithm.collective, count);
            call.finish = (variant & 1) != 0;
            call.accumulate = call.invariant = (variant & 2) != 0;
            call.root = has_root(call.collective) ? size / 2 : 0;
            call.element_bytes = count > 64 ? 4 : 1;
            if (has_parts(call.collective) && count > 65) continue;
            REQUIRE(fits_within_reach(algorithm, call, meeting(size)));
            const std::vector<Call> calls = mixture(call, size, in_place);
            INFO(algorithm.name << " " << describe(call) << ", " << size << " ranks, in place " << in_place);
            for (const std::size_t chunk : {count > 7 ? 16u : 1u, 1000u}) {
              const Outcome outcome =
                  simulate({calls, size}, meeting(size), made(algorithm, calls, chunk), {in_place + 1, 128, -1, 0});
              REQUIRE(outcome.problem == "");
              ++simulated;
            }
          }
  }
  CHECK(simulated > 6000);
}

TEST_CASE("all algorithms over peers' memory are seen by these tests") {
  std::string names;
  for (const Algorithm& algorithm : catalog())
    if (over_memory(algorithm))
      names += std::string(name(algorithm.collective)) + ":" + std::string(algorithm.name) + " ";
  CHECK(names ==
        "allreduce:direct allreduce:central allreduce:attach broadcast:direct broadcast:central allgather:direct "
        "allgather:central reduce_scatter:direct reduce:direct reduce:central alltoall:direct ");
}

TEST_CASE("the fewest elements move") {
  const std::size_t block = 64;
  for (const int size : {2, 3, 4, 8}) {
    const auto others = static_cast<std::size_t>(size - 1);
    const auto moved = [&](Collective collective, const char* algorithm, Reach reach, std::size_t count) {
      const Call call = reaching(collective, count, reach);
      const Outcome outcome =
          simulate(call, meeting(size), make_all(*find(collective, algorithm), call, meeting(size), 1));
      REQUIRE(outcome.problem == "");
      return outcome.traffic;
    };
    for (const Traffic& each : moved(Collective::allreduce, "direct", Reach::store, (others + 1) * block)) {
      CHECK(each.received == others * block);
      CHECK(each.sent == others * block);
      CHECK(each.messages == 0);
    }
    for (const Traffic& each : moved(Collective::allreduce, "attach", Reach::read, (others + 1) * block)) {
      CHECK(each.received == 2 * others * block);
      CHECK(each.sent == 0);
    }
    for (const Collective collective : {Collective::reduce_scatter, Collective::allgather, Collective::alltoall})
      for (const Traffic& each : moved(collective, "direct", Reach::read, block))
        CHECK(each.received == others * block);
  }
}

TEST_CASE("a barrier that is left out is found, and so is one too many") {
  std::size_t seeded = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!over_memory(algorithm)) continue;
    for (const int size : {2, 3, 4})
      for (const std::size_t in_place : {std::size_t{0}, (std::size_t{1} << size) - 1, std::size_t{1}}) {
        Call call = a_call(algorithm.collective, 256);
        REQUIRE(fits_within_reach(algorithm, call, meeting(size)));
        const std::vector<Call> calls = mixture(call, size, in_place);
        const std::vector<Schedule> right = made(algorithm, calls, 1000);
        const auto barriers = std::count_if(right[0].steps.begin(), right[0].steps.end(),
                                            [](const Step& step) { return step.kind == Kind::barrier; });
        for (int omitted = -1; omitted < barriers; ++omitted)  // -1: one too many
          for (int at = -1; at < size; ++at) {                 // -1: on all ranks
            if (omitted < 0 && at < 0) continue;
            std::vector<Schedule> faulty;
            for (int rank = 0; rank < size; ++rank) {
              // The same steps said again, but for that barrier.
              Builder steps("test", calls[static_cast<std::size_t>(rank)], meeting(size), rank);
              steps.touches_peers(true, true);
              int met = 0;
              const bool here = at < 0 || at == rank;
              for (const Step& step : right[static_cast<std::size_t>(rank)].steps) {
                const Call& own = calls[static_cast<std::size_t>(rank)];
                if (step.kind == Kind::copy) steps.copy(said(step.into, own, rank), said(step.from, own, rank));
                if (step.kind == Kind::reduce_ranks) steps.reduce_ranks(said(step.into, own, rank), step.from);
                if (step.kind == Kind::barrier && !(here && met++ == omitted)) steps.barrier();
              }
              if (here && omitted < 0) steps.barrier();
              faulty.push_back(std::move(steps).build());
            }
            ++seeded;
            INFO(algorithm.name << " " << describe(call) << ", " << size << " ranks, in place " << in_place
                                << ", barrier " << omitted << " on rank " << at);
            REQUIRE(simulate({calls, size}, meeting(size), faulty).problem != "");
          }
      }
  }
  CHECK(seeded > 200);
}

TEST_CASE("a slice of another rank is found") {
  std::size_t seeded = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!over_memory(algorithm)) continue;
    const int size = 4;
    Call call = a_call(algorithm.collective, 256);
    REQUIRE(fits_within_reach(algorithm, call, meeting(size)));
    const std::vector<Schedule> right = make_all(algorithm, call, meeting(size), 1000);
    for (std::size_t r = 0; r < right.size(); ++r)
      for (std::size_t s = 0; s < right[r].steps.size(); ++s)
        for (const bool into : {true, false})
          for (const int owner : {kEach, kOwn, 0, 1, 2, 3, 4}) {
            const Step& step = right[r].steps[s];
            const Slice& slice = into ? step.into : step.from;
            const bool own = owner == kOwn || owner == static_cast<int>(r);
            const bool was_own = slice.owner == kOwn || slice.owner == static_cast<int>(r);
            if (!touches_peers(step) || owner == slice.owner || (own && was_own)) continue;
            std::vector<Schedule> faulty = right;
            (into ? faulty[r].steps[s].into : faulty[r].steps[s].from).owner = owner;
            ++seeded;
            INFO(algorithm.name << " " << describe(call) << ", rank " << r << ", step " << s << ", owner " << owner);
            REQUIRE(simulate(call, meeting(size), faulty).problem != "");
          }
  }
  CHECK(seeded > 300);
}

TEST_CASE("a result that overwrites inputs which others still need is found") {
  const Call scatter = reaching(Collective::reduce_scatter, 4, Reach::read, true);
  const auto direct = [](Builder& steps, int rank) {
    steps.reduce_ranks(output({0, 4}), input_of(kEach, {static_cast<std::size_t>(rank) * 4, 4}));
    steps.barrier();
  };
  CHECK(contains(problem_of(scatter, 3, direct), "no barrier keeps them apart"));

  const Call alltoall = reaching(Collective::alltoall, 4, Reach::read, true);
  // The barrier of a round: parts of the next one may be read early, those of this one not be overwritten early.
  for (std::size_t omitted = 0; omitted < 2; ++omitted) {
    const auto rounds = [&](Builder& steps, int rank) {
      for (std::size_t c = 0; c < 2; ++c) {
        const Slice aside{Buffer::scratch, 0, 2};
        steps.reduce_ranks(aside, input_of(kEach, {static_cast<std::size_t>(rank) * 4 + c * 2, 2}));
        if (c != omitted) steps.barrier();
        steps.copy(output({c * 2, 2}), aside);
      }
      if (omitted == 1) steps.barrier();
    };
    CHECK(contains(problem_of(scatter, 3, rounds), "no barrier keeps them apart"));
  }

  const auto swapped = [](Builder& steps, int rank) {
    for (int peer = 0; peer < 3; ++peer)
      steps.copy(output({static_cast<std::size_t>(peer) * 4, 4}),
                 input_of(peer, {static_cast<std::size_t>(rank) * 4, 4}));
    steps.barrier();
  };
  CHECK(contains(problem_of(alltoall, 3, swapped), "no barrier keeps them apart"));
  Call apart = alltoall;
  apart.in_place = false;
  CHECK(problem_of(apart, 3, swapped) == "");
}

TEST_CASE("a race is found whatever order of events shows, and said in words") {
  // Rank 1 reads rank 0's result, which rank 0 in this order has written long before.
  const Call call = reaching(Collective::allreduce, 2, Reach::read);
  const auto unmet = [](Builder& steps, int rank) {
    steps.reduce_ranks(output({0, 1}), input_of(kEach, {0, 1}));
    if (rank == 0) steps.reduce_ranks(output({1, 1}), input_of(kEach, {1, 1}));
    if (rank == 1) steps.copy(output({1, 1}), output_of(0, {1, 1}));
    steps.barrier();
  };
  CHECK(problem_of(call, 2, unmet) ==
        "rank 1, step 1 (copy out[1..2) = rank 0's out[1..2)) and rank 0, step 1 (reduce out[1..2) = all ranks' "
        "in[1..2)) "
        "both touch rank 0's out[1..2): no barrier keeps them apart");
  // A message tells the receiver nothing that a barrier would.
  const auto told = [](Builder& steps, int rank) {
    if (rank == 0) {
      steps.reduce_ranks(output({0, 2}), input_of(kEach, {0, 2}));
      steps.send(1, output({0, 2}));
    } else {
      steps.recv(0, Slice{Buffer::scratch, 0, 2});
      steps.copy(Slice{Buffer::scratch, 0, 2}, output_of(0, {0, 2}));
      steps.copy(output({0, 2}), Slice{Buffer::scratch, 0, 2});
    }
    steps.barrier();
  };
  CHECK(contains(problem_of(call, 2, told), "no barrier keeps them apart"));
  const auto left = [](Builder& steps, int) { steps.reduce_ranks(output({0, 2}), input_of(kEach, {0, 2})); };
  CHECK(contains(problem_of(call, 2, left), "may have taken back"));
}

TEST_CASE("what an algorithm touches of its peers must be said, alike on all ranks") {
  const Call call = reaching(Collective::allreduce, 100, Reach::store);
  std::vector<Schedule> all = make_all(*find(Collective::allreduce, "direct"), call, meeting(3), 100);
  REQUIRE(simulate(call, meeting(3), all).problem == "");
  all[1].peers_outputs = false;
  CHECK(contains(simulate(call, meeting(3), all).problem, "ranks disagree on which of their buffers"));
  all[0].peers_outputs = all[2].peers_outputs = false;
  CHECK(contains(simulate(call, meeting(3), all).problem, "of a kind that its algorithm does not name"));
}

TEST_CASE("a reduction over peers' memory of data that was already reduced, or not finished, is found") {
  Call call = reaching(Collective::allreduce, 2, Reach::read);
  call.finish = true;
  const auto twice = [](Builder& steps, int) {
    steps.reduce_ranks(output({0, 2}), input_of(kEach, {0, 2}));
    steps.barrier();
    steps.reduce_ranks(Slice{Buffer::scratch, 0, 2}, output_of(kEach, {0, 2}));
    steps.barrier();
    steps.copy(output({0, 2}), Slice{Buffer::scratch, 0, 2});
  };
  CHECK(contains(problem_of(call, 2, twice), "reduces what was finished"));
  call.finish = false;
  CHECK(contains(problem_of(call, 2, twice), "not every rank's element in it once"));
}
