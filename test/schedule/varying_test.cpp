// Every form whose parts differ in count, with parts that do: some empty, with gaps, in any order.
#include "schedule/choose.h"
#include "schedule/parts.h"
#include "schedule/simulate.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <cstdint>
#include <memory>
#include <vector>

using namespace anello::schedule;

namespace {

struct Random {
  std::uint64_t state;
  std::size_t below(std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % n;
  }
};

// Places for parts of these counts: one after the other from the last rank on, with gaps.
std::vector<std::size_t> places(const std::vector<std::size_t>& counts, Random& random) {
  std::vector<std::size_t> at(counts.size());
  std::size_t next = random.below(3);
  for (std::size_t p = counts.size(); p-- > 0;) {
    at[p] = next;
    next += counts[p] + random.below(2);
  }
  return at;
}

// Each rank's call. flow[s][r]: what rank s has for rank r.
std::vector<Call> varying_calls(Collective collective, int size, bool in_place, Random& random) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto root = static_cast<std::size_t>(size / 2);
  std::vector<std::vector<std::size_t>> flow(ranks, std::vector<std::size_t>(ranks));
  std::vector<std::size_t> share(ranks);
  for (std::size_t& count : share) count = random.below(5);
  for (std::size_t s = 0; s < ranks; ++s)
    for (std::size_t r = 0; r < ranks; ++r) {
      flow[s][r] = random.below(4);
      if (collective == Collective::allgatherv) flow[s][r] = share[s];
      if (collective == Collective::gatherv) flow[s][r] = r == root ? share[s] : 0;
      if (collective == Collective::scatterv) flow[s][r] = s == root ? share[r] : 0;
      if (collective == Collective::reduce_scatterv) flow[s][r] = share[r];
    }
  if (in_place && collective == Collective::alltoallv)
    for (std::size_t s = 0; s < ranks; ++s)
      for (std::size_t r = 0; r < s; ++r) flow[s][r] = flow[r][s];
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Varying parts;
    parts.sends = flow[rank];
    parts.receives.resize(ranks);
    for (std::size_t s = 0; s < ranks; ++s) parts.receives[s] = flow[s][rank];
    parts.send_at = places(parts.sends, random);
    parts.receive_at = places(parts.receives, random);
    if (collective == Collective::allgatherv || collective == Collective::gatherv) parts.send_at.assign(ranks, 0);
    if (collective == Collective::reduce_scatterv) {
      parts.receives.assign(ranks, 0);
      parts.receives[rank] = share[rank];
      parts.receive_at.assign(ranks, 0);
      std::size_t next = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        parts.send_at[r] = next;
        next += share[r];
      }
    }
    if (in_place && collective == Collective::alltoallv) parts.receive_at = parts.send_at;
    if (in_place && collective == Collective::scatterv && rank == root) parts.sends[rank] = parts.receives[rank] = 0;
    Call call = a_call(collective, 0);
    if (!is_between_pairs(collective))
      for (const std::size_t count : share) call.count += count;
    call.root = has_root(collective) ? static_cast<int>(root) : 0;
    call.in_place = in_place;
    call.varying = measured(std::move(parts));
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace

TEST_CASE("parts that differ arrive, and what lies between them is left alone, in every order of events") {
  Random random{7};
  std::size_t simulated = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!is_varying(algorithm.collective)) continue;
    const bool reducing = reduces(algorithm.collective);
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32})
      for (unsigned variant = 0; variant < (reducing ? 32u : 6u); ++variant) {
        const bool own_part = reducing && (variant & 16) != 0;
        if (own_part && (variant & 1) == 0) continue;
        std::vector<Call> calls = varying_calls(algorithm.collective, size, (variant & 1) != 0, random);
        for (Call& call : calls) {
          call.own_part = own_part;
          call.finish = reducing && (variant & 2) != 0;
          call.accumulate = reducing && (variant & 4) != 0;
          call.invariant = reducing && (variant & 8) != 0;
        }
        const Topology topology = meeting(size);
        if (!algorithm.fits(calls[0], topology)) continue;
        INFO(algorithm.name << " " << describe(calls[0]) << ", " << size << " ranks");
        std::vector<Schedule> schedules;
        for (int rank = 0; rank < size; ++rank)
          schedules.push_back(algorithm.make(calls[static_cast<std::size_t>(rank)], topology, rank, 2));
        std::uint64_t digest = 0;
        for (const unsigned eager : {0u, 256u, 100u}) {
          const Outcome outcome = simulate({calls, size}, topology, schedules, {eager + 17, eager, -1, 0});
          REQUIRE(outcome.problem == "");
          if (eager != 0) REQUIRE(outcome.digest == digest);
          digest = outcome.digest;
          ++simulated;
        }
      }
  }
  CHECK(simulated > 1500);
}

TEST_CASE("a part that is not where it should be is found") {
  Random random{11};
  for (const Collective collective : {Collective::allgatherv, Collective::gatherv, Collective::scatterv,
                                      Collective::reduce_scatterv, Collective::alltoallv}) {
    const std::vector<Call> calls = varying_calls(collective, 4, false, random);
    const Algorithm& algorithm = *choose(calls[0], meeting(4)).algorithm;
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 4; ++rank)
      schedules.push_back(algorithm.make(calls[static_cast<std::size_t>(rank)], meeting(4), rank, 2));
    REQUIRE(simulate({calls, 4}, meeting(4), schedules).problem == "");
    std::size_t seeded = 0;
    for (std::size_t rank = 0; rank < 4; ++rank)
      for (std::size_t s = 0; s < schedules[rank].steps.size(); ++s) {
        std::vector<Schedule> faulty = schedules;
        Step& step = faulty[rank].steps[s];
        Slice& slice = step.kind == Kind::send ? step.from : step.into;
        if (slice.count == 0) continue;
        ++slice.offset;
        ++seeded;
        INFO(name(collective) << ", rank " << rank << ", step " << s);
        REQUIRE(simulate({calls, 4}, meeting(4), faulty).problem != "");
      }
    CHECK(seeded > 0);
  }
}

TEST_CASE("one count for each rank makes the calls of every form, also in place") {
  Random random{5};
  for (const Algorithm& algorithm : catalog()) {
    if (!is_varying(algorithm.collective)) continue;
    for (const int size : {1, 2, 3, 4, 7, 16})
      for (const bool in_place : {false, true}) {
        Counts counts(static_cast<std::size_t>(size));
        for (std::size_t& count : counts) count = random.below(5);
        if (in_place && algorithm.collective == Collective::alltoallv) counts.assign(counts.size(), 3);
        Call call = a_call(algorithm.collective, known_total(algorithm.collective, counts));
        call.root = has_root(algorithm.collective) ? size / 2 : 0;
        call.in_place = in_place;
        if (!algorithm.fits(call, meeting(size))) continue;
        INFO(algorithm.name << " " << describe(call) << ", " << size << " ranks");
        const Calls calls(calls_of(call, counts), size);
        const Outcome outcome = simulate(calls, meeting(size), make_all(algorithm, calls, meeting(size), 2));
        REQUIRE(outcome.problem == "");
        const std::size_t all = known_total(Collective::allgatherv, counts);
        const auto root = static_cast<std::size_t>(call.root);
        std::size_t sent = 0;
        for (const Traffic& traffic : outcome.traffic) sent += traffic.sent;
        const bool to_all = !has_root(algorithm.collective);
        if (algorithm.name == "dissemination") continue;  // tokens
        CHECK(sent == (to_all ? all * static_cast<std::size_t>(size - 1) : all - counts[root]));
      }
  }
}

TEST_CASE("a form with varying parts chooses by what all ranks know") {
  Random random{3};
  for (const int size : {1, 2, 5})
    for (const Algorithm& row : catalog()) {
      if (!is_varying(row.collective)) continue;
      const std::vector<Call> calls = varying_calls(row.collective, size, false, random);
      for (const Call& call : calls) {
        const Choice choice = choose(call, meeting(size));
        REQUIRE(choice.algorithm != nullptr);
        CHECK(choice.algorithm == choose(calls[0], meeting(size)).algorithm);
        CHECK(choice.chunk == choose(calls[0], meeting(size)).chunk);
      }
    }
}
