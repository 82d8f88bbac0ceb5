// Every row of the catalog on every shape that it fits, in several orders of events.
#include "schedule/builder.h"
#include "schedule/catalog.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"
#include "schedule/simulate.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>
#include <optional>
#include <set>

using namespace anello::schedule;

TEST_CASE("every algorithm gives the right result in every order of events") {
  std::size_t simulated = 0;
  for (const Algorithm& algorithm : catalog())
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32})
      for (Call call : calls(algorithm.collective, size)) {
        const Topology topology = meeting(size);
        if (!fits_within_reach(algorithm, call, topology)) continue;
        for (const std::size_t chunk : {1u, 3u, 11u, 1000u}) {
          // Short vectors fit into one chunk of 11; long ones in small chunks make as many steps as they should,
          // slowly.
          const bool is_short = call.count <= static_cast<std::size_t>(size) + 1;
          if (is_short != (chunk <= 3)) continue;
          if (size > 9 && chunk == 1 && call.count > 1 && call.collective != Collective::allreduce) continue;
          INFO(algorithm.name << " " << describe(call) << ", " << size << " ranks, chunk " << chunk);
          const std::vector<Schedule> schedules = make_all(algorithm, call, topology, chunk);
          std::optional<std::uint64_t> digest;
          // Rendezvous only, everything buffered, and a mixture.
          for (const unsigned eager : {0u, 256u, 100u}) {
            // Half of the test's time would be that of 32 ranks.
            if (size == 32 && eager != 100 && !is_long()) continue;
            const Outcome outcome = simulate(call, topology, schedules, {eager + 17 + chunk, eager, -1, 0});
            REQUIRE(outcome.problem == "");
            if (digest) REQUIRE(outcome.digest == *digest);
            digest = outcome.digest;
            ++simulated;
          }
        }
      }
  CHECK(simulated > 5000);
}

TEST_CASE("many orders of events give one result") {
  for (const Algorithm& algorithm : catalog())
    for (Call call : calls(algorithm.collective, 5)) {
      const Topology topology = meeting(5);
      if (call.count != 6 || !fits_within_reach(algorithm, call, topology)) continue;
      INFO(algorithm.name << " " << describe(call));
      const std::vector<Schedule> schedules = make_all(algorithm, call, topology, 1);
      std::set<std::uint64_t> digests;
      for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const Outcome outcome = simulate(call, topology, schedules, {seed, static_cast<unsigned>(seed * 6), -1, 0});
        REQUIRE(outcome.problem == "");
        digests.insert(outcome.digest);
      }
      CHECK(digests.size() == 1);
    }
}

TEST_CASE("an invariant call gives one result whatever the algorithm and the chunk") {
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
    Call call = a_call(collective, 37);
    call.invariant = true;
    std::set<std::uint64_t> digests;
    std::size_t fitting = 0;
    for (const Algorithm& algorithm : catalog()) {
      if (algorithm.collective != collective || !fits_within_reach(algorithm, call, meeting(6))) continue;
      ++fitting;
      for (const std::size_t chunk : {1u, 5u, 100u})
        for (const int place : {0, 1, 2}) {
          call.in_place = place > 0;
          call.own_part = place > 1 && collective == Collective::reduce_scatter;
          const Outcome outcome = simulate(call, meeting(6), make_all(algorithm, call, meeting(6), chunk));
          REQUIRE(outcome.problem == "");
          digests.insert(outcome.digest);
        }
    }
    CHECK(fitting ==
          (collective == Collective::allreduce ? 6 : 4));  // pairwise, exchange, staged, direct; also central, attach
    CHECK(digests.size() == 1);
  }
}

TEST_CASE("a write beside the part that a result may replace is found") {
  Call call = a_call(Collective::reduce_scatter, 4);
  call.in_place = call.own_part = true;
  for (const bool beside : {false, true}) {
    std::vector<Schedule> schedules;
    for (const int rank : {0, 1}) {
      const auto part = [](int owner) { return input({static_cast<std::size_t>(owner) * 4, 4}); };
      Builder steps("test", call, meeting(2), rank);
      steps.send(1 - rank, part(1 - rank));
      steps.recv_reduce(1 - rank, output({0, 4}), part(rank));
      if (beside && rank == 0) steps.copy(output({4, 4}), part(0));
      schedules.push_back(std::move(steps).build());
    }
    const std::string problem = simulate(call, meeting(2), schedules).problem;
    CHECK(problem == (beside ? "rank 0's input 4 is in no result and was written" : ""));
  }
}

TEST_CASE("up to 4096 ranks can be simulated") {
  const Topology topology = meeting(4096);
  for (const auto& [collective, name, count] : {std::tuple{Collective::barrier, "dissemination", 0},
                                                {Collective::allreduce, "doubling", 2},
                                                {Collective::allreduce, "tree", 2},
                                                {Collective::broadcast, "tree", 3}}) {
    const Call call = a_call(collective, static_cast<std::size_t>(count));
    INFO(name);
    CHECK(simulate(call, topology, make_all(*find(collective, name), call, topology, 2)).problem == "");
  }
}

TEST_CASE("traffic per rank is what theory says") {
  for (const int size : {2, 3, 4, 7, 8}) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::size_t block = 24;
    const auto moved = [&](Collective collective, const char* name, std::size_t count, bool accumulate = false) {
      Call call = a_call(collective, count);
      call.accumulate = accumulate;
      const Outcome outcome = simulate(call, meeting(size), make_all(*find(collective, name), call, meeting(size), 5));
      REQUIRE(outcome.problem == "");
      return outcome.traffic;
    };
    // 2(P-1)/P of the vector each way; half of that for the halves.
    for (const char* name : {"ring", "pairwise"}) {
      INFO(name << ", " << size << " ranks");
      for (const Traffic& traffic : moved(Collective::allreduce, name, ranks * block)) {
        CHECK(traffic.sent == 2 * (ranks - 1) * block);
        CHECK(traffic.received == 2 * (ranks - 1) * block);
        CHECK(traffic.messages == 2 * (ranks - 1) * 5);
      }
      for (const Collective half : {Collective::reduce_scatter, Collective::allgather})
        for (const Traffic& traffic : moved(half, name, block)) {
          CHECK(traffic.sent == (ranks - 1) * block);
          CHECK(traffic.received == (ranks - 1) * block);
        }
    }
    if (size == 2 || size == 4 || size == 8) {
      // The same bytes; a round sends 1, 2, 4, .. blocks, cut every 5 elements.
      const std::size_t messages = size == 2 ? 5 : size == 4 ? 5 + 10 : 5 + 10 + 20;
      for (const auto& [half, name] :
           {std::pair{Collective::reduce_scatter, "halving"}, {Collective::allgather, "doubling"}})
        for (const Traffic& traffic : moved(half, name, block)) {
          CHECK(traffic.sent == (ranks - 1) * block);
          CHECK(traffic.received == (ranks - 1) * block);
          CHECK(traffic.messages == messages);
        }
      for (const Traffic& traffic : moved(Collective::allreduce, "halving", ranks * block)) {
        CHECK(traffic.sent == 2 * (ranks - 1) * block);
        CHECK(traffic.received == 2 * (ranks - 1) * block);
        CHECK(traffic.messages == 2 * messages);
      }
    }
    for (const Traffic& traffic : moved(Collective::allreduce, "pairwise", ranks * block, true))
      CHECK(traffic.sent == 2 * (ranks - 1) * block);
    if (size == 4 || size == 8)
      for (const Traffic& traffic : moved(Collective::allreduce, "doubling", 24))
        CHECK(traffic.sent == (size == 4 ? 2u : 3u) * 24);
    std::size_t sent = 0;
    for (const Traffic& traffic : moved(Collective::broadcast, "tree", 24)) sent += traffic.sent;
    CHECK(sent == (ranks - 1) * 24);
  }
}

namespace {

Topology bound_in_turn(int size, int processors) {
  Topology topology = meeting(size);
  topology.oversubscribed = true;
  for (int rank = 0; rank < size; ++rank) topology.processors_of.push_back(rank % processors);
  return topology;
}

}  // namespace

TEST_CASE("leaders of ranks that share processors") {
  std::size_t simulated = 0;
  for (const Collective collective :
       {Collective::allreduce, Collective::allgather, Collective::reduce_scatter, Collective::alltoall})
    for (const int size : {3, 4, 5, 8, 13})
      for (const int processors : {2, 3, 4})
        for (const bool in_turn : {true, false})
          for (Call call : calls(collective, size)) {
            if (processors >= size) continue;
            Topology topology = bound_in_turn(size, processors);
            if (!in_turn) std::ranges::sort(topology.processors_of);
            const Algorithm& leaders = *find(collective, "leaders");
            if (!leaders.fits(call, topology)) continue;
            INFO(leaders.name << " " << describe(call) << ", " << size << " ranks on " << processors << " processors");
            const std::vector<Schedule> schedules = make_all(leaders, call, topology, 401);
            const Hosts groups(topology.processors_of);
            for (const unsigned eager : {0u, 100u, 256u}) {
              const Outcome outcome = simulate(call, topology, schedules, {eager + 5, eager, -1, 0});
              REQUIRE(outcome.problem == "");
              ++simulated;
              // Who leads nobody sends what it has, and no more.
              for (int rank = 0; rank < size; ++rank)
                if (groups.ranks(groups.of(rank))[0] != rank)
                  REQUIRE(outcome.traffic[static_cast<std::size_t>(rank)].sent == largest_input(call, size));
            }
          }
  CHECK(simulated > 1000);
  CHECK_FALSE(find(Collective::allgather, "leaders")->fits(a_call(Collective::allgather, 1), meeting(4)));
}

TEST_CASE("no rank leaves a barrier by leaders before all have come") {
  const Algorithm& leaders = *find(Collective::barrier, "leaders");
  const Call call = a_call(Collective::barrier, 0);
  const auto holds_back = [&](const Topology& topology) {
    for (const unsigned eager : {0u, 100u, 256u})
      CHECK(simulate(call, topology, make_all(leaders, call, topology, 1), {eager + 5, eager, -1, 0}).problem == "");
  };
  for (const int size : {3, 4, 5, 8, 13, 33})
    for (const int processors : {2, 3, 4, 7})
      if (processors < size) holds_back(bound_in_turn(size, processors));
  for (const int hosts : {2, 3, 5}) {
    Topology topology = meeting(4 * hosts - 1);
    for (int rank = 0; rank < topology.size; ++rank) topology.host_of.push_back(rank / 4);
    holds_back(topology);
  }
  CHECK_FALSE(leaders.fits(call, meeting(4)));
}

TEST_CASE("a tree keeps what ranks on the same processors need among them") {
  for (const int size : {2, 3, 4, 5, 8, 13})
    for (const int processors : {1, 2, 3, 4})
      for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce})
        for (const int root : {0, size / 2, size - 1}) {
          if (processors >= size) continue;
          const Topology topology = bound_in_turn(size, processors);
          Call call = a_call(collective, 7);
          call.root = has_root(collective) ? root : 0;
          INFO(describe(call) << ", " << size << " ranks on " << processors << " processors");
          const std::vector<Schedule> schedules = make_all(*find(collective, "tree"), call, topology, 3);
          REQUIRE(simulate(call, topology, schedules, {5, 0, -1, 0}).problem == "");
          int crossing = 0;
          for (int rank = 0; rank < size; ++rank)
            for (const Lane& lane : schedules[static_cast<std::size_t>(rank)].lanes)
              crossing += (rank - lane.peer) % processors != 0 && !lane.sends.empty() ? 1 : 0;
          // As many on each, and a power of two: subtrees of their own.
          if (size == 8 && processors != 3)
            CHECK(crossing == (processors - 1) * (collective == Collective::allreduce ? 2 : 1));
        }
}
