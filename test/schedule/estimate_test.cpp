// Times from fewer ranks, and from one host's, against those from all ranks' plans.
#include "schedule/estimate.h"

#include "schedule/catalog.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"
#include "schedule/simulate.h"
#include "support/catch.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace anello::schedule;

namespace {

constexpr std::size_t kAny = SIZE_MAX;
constexpr std::size_t kSmall = 64;
const bool kLong = std::getenv("SCHEDULE_LONG") != nullptr;
const auto kNobody = [](int, const Schedule&) {};

// The last host has the rest.
Topology network_of(int ranks, int per_host) {
  Topology topology;
  topology.size = ranks;
  topology.network = true;
  if (per_host > 1) {
    for (int rank = 0; rank < ranks; ++rank) topology.host_of.push_back(rank / per_host);
  }
  know_hosts(topology);
  return topology;
}

Call call_of(Collective collective, std::size_t count) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = 4;
  return call;
}

// count for each rank, if the collective's parts may differ; call then has the sum.
Counts counts_for(Call& call, int ranks) {
  if (!is_varying(call.collective)) return {};
  const Counts counts(static_cast<std::size_t>(ranks), call.count);
  call.count = known_total(call.collective, counts);
  return counts;
}

std::size_t chunk_for(const Call& call, const Topology& topology, const Algorithm& algorithm) {
  Wish wish;
  wish.algorithm = std::string(algorithm.name);
  return choose(call, topology, wish).chunk;
}

}  // namespace

// The queues of pairwise's ports take the simulation of all too long for more ranks.
TEST_CASE("the time of many ranks follows from fewer") {
  const Cost cost = typical_cost(true);
  for (const int per_host : {1, 8}) {
    for (const Algorithm& algorithm : catalog()) {
      const bool to_all = algorithm.name == "pairwise" || is_varying(algorithm.collective);
      const Topology topology = network_of(to_all ? 200 : 500, per_host);
      for (const std::size_t bytes : kLong ? std::vector{kSmall, std::size_t{4} << 20} : std::vector{kSmall}) {
        const bool parts = has_parts(algorithm.collective) || is_varying(algorithm.collective);
        Call call = call_of(algorithm.collective, parts ? bytes / 512 + 1 : bytes / 4);
        const Counts counts = counts_for(call, topology.size);
        if (!algorithm.fits(call, topology)) continue;
        const std::size_t chunk = chunk_for(call, topology, algorithm);
        const Estimate all = estimate(call, topology, algorithm, chunk, cost, kNobody, {kAny, 0, false}, counts);
        const Estimate fewer = estimate(call, topology, algorithm, chunk, cost, kNobody, {0, 100'000, false}, counts);
        CAPTURE(name(algorithm.collective), algorithm.name, per_host, bytes, fewer.ranks);
        CHECK(all.from == From::all_ranks);
        CHECK(fewer.from == From::fewer_ranks);
        // How many rounds of doubling leave a host depends on how many ranks pair off first.
        CHECK(fewer.seconds == Approx(all.seconds).epsilon(algorithm.name == "doubling" ? 0.65 : 0.2));
      }
    }
  }
}

TEST_CASE("one host's ranks stand for all, also of hosts that are nearly equal and of short vectors") {
  const Cost cost = typical_cost(true);
  for (const int ranks : {255, 256}) {
    for (const std::size_t count : {16, 4096}) {
      for (const char* const name : {"ring", "hierarchical", "pairwise"}) {
        const Topology topology = network_of(ranks, std::string(name) == "ring" ? 1 : 8);
        const Call call = call_of(Collective::allreduce, count);
        const Algorithm& algorithm = *find(Collective::allreduce, name);
        const std::size_t chunk = chunk_for(call, topology, algorithm);
        const Estimate all = estimate(call, topology, algorithm, chunk, cost, kNobody, {kAny, 0, false});
        const Estimate host = estimate(call, topology, algorithm, chunk, cost, kNobody, {0, 0, true});
        CAPTURE(name, ranks, count);
        CHECK(host.from == From::one_host);
        CHECK(host.ranks == (std::string(name) == "ring" ? 1 : 8));
        CHECK(host.seconds == Approx(all.seconds).epsilon(0.1));
      }
    }
  }
}

TEST_CASE("fewer ranks are whole hosts, and several of them") {
  const Cost cost = typical_cost(true);
  const Algorithm& ring = *find(Collective::allreduce, "ring");
  for (const int per_host : {16, 64}) {
    const Topology topology = network_of(16 * per_host, per_host);
    const Call call = call_of(Collective::allreduce, 1 << 22);
    const std::size_t chunk = chunk_for(call, topology, ring);
    const Estimate fewer = estimate(call, topology, ring, chunk, cost, kNobody, {0, 300'000, false});
    CAPTURE(per_host, fewer.ranks);
    if (per_host == 64) {
      CHECK(fewer.from == From::nothing);  // half of the hosts have too many steps, and one or two say too little
      continue;
    }
    CHECK(fewer.ranks == 8 * per_host);
    const Estimate all = estimate(call, topology, ring, chunk, cost, kNobody, {kAny, 0, false});
    CHECK(fewer.seconds == Approx(all.seconds).epsilon(0.2));
  }
}

TEST_CASE("the busiest rank is looked at, whatever kind of rank it is") {
  // Only a host's last rank sends to another host.
  for (const int per_host : {8, 100}) {
    const Topology topology = network_of(20'000, per_host);
    Call call = call_of(Collective::reduce, 1'000'000);
    call.root = 4321;
    std::vector<int> looked_at;
    estimate(call, topology, *find(Collective::reduce, "chain"), 1000, typical_cost(true),
             [&](int rank, const Schedule&) { looked_at.push_back(rank); }, {0, 0, false});
    for (const int rank : {0, per_host - 1, 4321, 19'999}) {
      CAPTURE(rank);
      CHECK(std::find(looked_at.begin(), looked_at.end(), rank) != looked_at.end());
    }
  }
}

TEST_CASE("equal parts of a form whose parts may differ are predicted from one host, others from all ranks alone") {
  const Cost cost = typical_cost(true);
  for (const Collective collective : {Collective::allgatherv, Collective::alltoallv}) {
    const Topology topology = network_of(96, 8);
    Call call = call_of(collective, 1000);
    Counts counts = counts_for(call, 96);
    const Algorithm& direct = *find(collective, "direct");
    const Estimate all = estimate(call, topology, direct, 1, cost, kNobody, {kAny, 0, false}, counts);
    const Estimate host = estimate(call, topology, direct, 1, cost, kNobody, {0, 0, true}, counts);
    CHECK(host.from == From::one_host);
    CHECK(host.seconds == Approx(all.seconds).epsilon(0.1));
    counts[7] = 100'000;  // to 95 ranks
    const Estimate uneven = estimate(call, topology, direct, 1, cost, kNobody, {kAny, 0, true}, counts);
    CHECK(uneven.from == From::all_ranks);
    CHECK(uneven.seconds > 88 * 400'000 * cost.byte_s);
    CHECK(estimate(call, topology, direct, 1, cost, kNobody, {0, 100'000, true}, counts).from == From::nothing);
  }
}

TEST_CASE("a call of any size has a time from what is simulated of it") {
  const Cost cost = typical_cost(true);
  struct Case {
    Collective collective;
    const char* name;
    int ranks, per_host;
    std::size_t count;
    From from;
  };
  for (const Case& each : {Case{Collective::broadcast, "tree", 65'536, 1, 1'000'000, From::fewer_ranks},
                           Case{Collective::allreduce, "doubling", 65'535, 8, 16'777'216, From::fewer_ranks},
                           Case{Collective::allreduce, "ring", 65'535, 8, 16, From::fewer_ranks},
                           Case{Collective::allreduce, "ring", 65'535, 1, 16, From::one_host},
                           Case{Collective::reduce, "chain", 40'000, 1, 100'000'000, From::fewer_ranks}}) {
    const Topology topology = network_of(each.ranks, each.per_host);
    const Call call = call_of(each.collective, each.count);
    const Algorithm& algorithm = *find(each.collective, each.name);
    int looked_at = 0;
    const Estimate found = estimate(call, topology, algorithm, chunk_for(call, topology, algorithm), cost,
                                    [&](int, const Schedule&) { ++looked_at; });
    CAPTURE(name(each.collective), each.name, each.ranks);
    CHECK(found.from == each.from);
    CHECK(found.seconds > 0);
    CHECK(looked_at > 0);
  }
}

TEST_CASE("hosts may differ as much as they like") {
  Topology topology = network_of(6000, 1);
  topology.host_of.assign(6000, 1000);  // 1000 hosts with a rank each, then one with all others
  for (int rank = 0; rank < 1000; ++rank) topology.host_of[std::size_t(rank)] = rank;
  know_hosts(topology);
  const Call call = call_of(Collective::broadcast, 1'000'000);
  const Algorithm& tree = *find(Collective::broadcast, "tree");
  const std::size_t chunk = chunk_for(call, topology, tree);
  const Estimate fewer = estimate(call, topology, tree, chunk, typical_cost(true), kNobody, {0, 100'000, false});
  CHECK(fewer.from == From::fewer_ranks);
  CHECK(fewer.ranks > 300);
  CHECK(fewer.seconds ==
        Approx(estimate(call, topology, tree, chunk, typical_cost(true), kNobody).seconds).epsilon(0.5));
}

// Algorithms that connect a rank with all others are left out.
TEST_CASE("for many ranks the table chooses what is at most twice as slow as the best") {
  struct Case {
    Collective collective;
    int ranks, per_host;
    std::size_t bytes;
  };
  constexpr std::size_t kKiB = 1024;
  std::vector<Case> cases;
  for (const int per_host : kLong ? std::vector{1, 8} : std::vector{1}) {
    // A power of two takes longer to simulate, and its rules are simpler.
    for (const int ranks : kLong ? std::vector{1000, 1024} : std::vector{1000}) {
      for (const Collective collective : {Collective::allreduce, Collective::reduce}) {
        for (const std::size_t bytes : {20 * kKiB, 256 * kKiB, 4096 * kKiB})
          cases.push_back({collective, ranks, per_host, bytes});
      }
    }
  }
  for (const int per_host : {1, 8}) {
    cases.push_back({Collective::allreduce, 512, per_host, 20 * kKiB});
    cases.push_back({Collective::allgather, 512, per_host, 64});
    for (const std::size_t bytes : {80 * kKiB, 4096 * kKiB})
      cases.push_back({Collective::broadcast, 1024, per_host, bytes});
    for (const std::size_t bytes : {kKiB / 4, kKiB, 4 * kKiB})
      cases.push_back({Collective::reduce_scatter, 512, per_host, bytes});
  }
  for (const Case& each : cases) {
    const Topology topology = network_of(each.ranks, each.per_host);
    const Call call = call_of(each.collective, each.bytes / 4);
    const Choice chosen = choose(call, topology);
    double best = 1e9, own = 0;
    for (const Algorithm& algorithm : catalog()) {
      if (algorithm.collective != each.collective || !algorithm.fits(call, topology)) continue;
      if (algorithm.name == "pairwise" && &algorithm != chosen.algorithm) continue;
      const std::size_t chunk = chunk_for(call, topology, algorithm);
      const double seconds = estimate(call, topology, algorithm, chunk, typical_cost(true), kNobody).seconds;
      if (&algorithm == chosen.algorithm) own = seconds;
      best = std::min(best, seconds);
    }
    CAPTURE(name(each.collective), each.ranks, each.per_host, each.bytes, chosen.algorithm->name, own, best);
    CHECK(own <= 2 * best);
  }
}

TEST_CASE("what the table chooses for 1024 ranks, with 8 a host, is right in the simulation") {
  const Topology topology = network_of(1024, 8);
  for (const Collective collective : kCollectives) {
    if (is_varying(collective) || (!kLong && collective != Collective::allreduce)) continue;
    for (const std::size_t bytes : kLong ? std::vector{kSmall, std::size_t{16} << 10} : std::vector{kSmall}) {
      const Call call = call_of(collective, has_parts(collective) ? 1 : bytes / 4);
      const Choice chosen = choose(call, topology);
      CAPTURE(name(collective), bytes, chosen.algorithm->name);
      const std::vector<Schedule> plans = make_all(*chosen.algorithm, call, topology, chosen.chunk);
      CHECK(simulate(call, topology, plans).problem == "");
      if (has_parts(collective) || collective == Collective::barrier) break;
    }
  }
}
