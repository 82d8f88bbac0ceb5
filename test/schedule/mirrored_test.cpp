// The prediction from one rank's schedule against that from all of them.
#include "schedule/catalog.h"
#include "schedule/hosts.h"
#include "schedule/predict.h"
#include "schedule/simulate.h"
#include "schedule/totals.h"
#include "support/catch.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace anello::schedule;

namespace {

Topology network_of(int hosts, int per_host) {
  Topology topology;
  topology.size = hosts * per_host;
  topology.network = true;
  if (per_host > 1) {
    for (int rank = 0; rank < topology.size; ++rank) topology.host_of.push_back(rank / per_host);
  }
  return topology;
}

struct Compared {
  double all = 0, mirrored = 0;
};

Compared compare(Collective collective, const char* name, const Topology& topology, std::size_t count,
                 std::size_t chunk) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = 4;
  const Algorithm* const algorithm = find(collective, name);
  REQUIRE(algorithm != nullptr);
  REQUIRE(algorithm->fits(call, topology));
  const std::vector<Schedule> schedules = make_all(*algorithm, call, topology, chunk);
  const Cost cost = typical_cost(true);
  Compared found;
  found.all = predict(call, topology, schedules, cost).seconds;
  found.mirrored = predict_in_step(call, topology, cost, [&](int rank) { return schedules[std::size_t(rank)]; });
  return found;
}

}  // namespace

TEST_CASE("where all ranks do the same, one rank's schedule predicts the time of all") {
  struct Case {
    Collective collective;
    const char* name;
  };
  for (const Case& each : {Case{Collective::allreduce, "ring"}, Case{Collective::reduce_scatter, "ring"},
                           Case{Collective::allgather, "ring"}, Case{Collective::allreduce, "pairwise"},
                           Case{Collective::reduce_scatter, "pairwise"}, Case{Collective::allgather, "pairwise"},
                           Case{Collective::alltoall, "pairwise"}}) {
    for (const int ranks : {2, 3, 4, 7, 16, 33, 64, 128}) {
      for (const std::size_t count : {std::size_t(ranks), std::size_t(ranks) * 300}) {
        const Compared found = compare(each.collective, each.name, network_of(ranks, 1), count, count);
        CAPTURE(each.name, name(each.collective), ranks, count, found.all, found.mirrored);
        CHECK(found.mirrored == Approx(found.all).epsilon(0.05));
      }
    }
  }
}

TEST_CASE("ranks that double or halve are in step if their number is a power of two") {
  for (const char* const name : {"doubling", "halving"}) {
    for (const int per_host : {1, 8}) {
      for (const int hosts : {2, 16, 64}) {
        const int ranks = hosts * per_host;
        for (const std::size_t count : {std::size_t(ranks), std::size_t(ranks) * 300}) {
          const Compared found = compare(Collective::allreduce, name, network_of(hosts, per_host), count, count);
          CAPTURE(name, hosts, per_host, count, found.all, found.mirrored);
          CHECK(found.mirrored == Approx(found.all).epsilon(0.1));
        }
      }
    }
  }
}

TEST_CASE("hosts of equal size are predicted from one of them") {
  for (const int hosts : {2, 4, 9, 16}) {
    for (const int per_host : {2, 8}) {
      for (const std::size_t each : {1, 400}) {
        const std::size_t count = each * std::size_t(hosts * per_host);
        const Compared found =
            compare(Collective::allreduce, "hierarchical", network_of(hosts, per_host), count, count);
        CAPTURE(hosts, per_host, count, found.all, found.mirrored);
        CHECK(found.mirrored == Approx(found.all).epsilon(0.1));
      }
    }
  }
}
