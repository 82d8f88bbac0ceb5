// Algorithms that know which ranks are together on a host.
#include "schedule/hosts.h"

#include "schedule/choose.h"
#include "schedule/simulate.h"
#include "schedule/split.h"
#include "schedule/totals.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <map>
#include <set>

using namespace anello::schedule;

namespace {

// Hosts of equal and unequal size, of one rank, in blocks, in turn, and in no order.
std::vector<Topology> placements() {
  std::vector<Topology> all;
  for (const std::vector<int>& ranks_on : std::vector<std::vector<int>>{{1, 2},
                                                                        {2, 2},
                                                                        {3, 1},
                                                                        {4, 4},
                                                                        {3, 2, 4},
                                                                        {1, 1, 6},
                                                                        {2, 2, 2, 2},
                                                                        {5, 1, 3, 1, 2},
                                                                        {8, 7},
                                                                        {3, 3, 3, 3, 3}})
    all.push_back(in_blocks(ranks_on));
  for (const auto& [size, hosts] : {std::pair{3, 2}, {4, 2}, {7, 2}, {8, 4}, {11, 3}, {16, 5}})
    all.push_back(round_robin(size, hosts));
  all.push_back(on_hosts({0, 1, 1, 0, 2, 1, 0, 2, 0}));
  return all;
}

std::string describe(const Topology& topology) {
  std::string hosts = "hosts";
  for (const int host : topology.host_of) hosts += anello::text(" ", host);
  return hosts;
}

// Bytes that leave each host and that come to it.
struct Crossing {
  std::map<int, std::size_t> out;
  std::map<int, std::size_t> in;
};

Crossing crossing(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules) {
  const Hosts hosts(topology);
  Crossing found;
  for (int rank = 0; rank < topology.size; ++rank) {
    for (const PeerTotals& peer : totals(call, topology.size, rank, schedules[static_cast<std::size_t>(rank)]).peers) {
      if (hosts.of(rank) == hosts.of(peer.peer)) continue;
      found.out[hosts.of(rank)] += peer.sent;
      found.in[hosts.of(rank)] += peer.received;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("ranks are found on their hosts, and where nothing is known they are together or each by itself") {
  const Hosts hosts(on_hosts({0, 1, 1, 0, 2}));
  CHECK(hosts.count() == 3);
  CHECK(hosts.ranks(0) == std::vector<int>{0, 3});
  CHECK(hosts.ranks(1) == std::vector<int>{1, 2});
  CHECK(hosts.of(4) == 2);
  CHECK(hosts.most() == 2);
  CHECK(Hosts(meeting(3)).count() == 1);
  Topology apart;
  apart.size = 3;
  apart.network = true;
  CHECK(Hosts(apart).count() == 3);
  CHECK(is_nested(on_hosts({0, 1, 1})));
  CHECK_FALSE(is_nested(on_hosts({0, 1, 2})));
  CHECK_FALSE(is_nested(on_hosts({0, 0, 0})));
  CHECK_FALSE(is_nested(apart));
}

TEST_CASE("algorithms over hosts give the right result wherever ranks are, in every order of events") {
  std::size_t simulated = 0;
  for (const Algorithm& algorithm : catalog())
    for (const Topology& topology : placements())
      for (const Call& call : calls(algorithm.collective, topology.size)) {
        if (algorithm.fits(call, meeting(topology.size)) || !algorithm.fits(call, topology)) continue;
        for (const std::size_t chunk : {1u, 3u, 1000u}) {
          if (call.count > 100 && chunk == 1) continue;
          INFO(algorithm.name << " " << describe(call) << ", " << describe(topology) << ", chunk " << chunk);
          const std::vector<Schedule> schedules = make_all(algorithm, call, topology, chunk);
          std::set<std::uint64_t> digests;
          for (const unsigned eager : {0u, 256u, 100u}) {
            const Outcome outcome = simulate(call, topology, schedules, {eager + 17 + chunk, eager, -1, 0});
            REQUIRE(outcome.problem == "");
            digests.insert(outcome.digest);
            ++simulated;
          }
          REQUIRE(digests.size() == 1);
        }
      }
  CHECK(simulated > 1000);
}

TEST_CASE("hierarchical: each byte leaves its host once on the way to the sum and once with the result") {
  for (const Topology& topology : placements()) {
    const Hosts hosts(topology);
    const auto count = static_cast<std::size_t>(hosts.count());
    // Blocks of one length: of each column one for each host.
    const Call call = a_call(Collective::allreduce, count * static_cast<std::size_t>(hosts.most()) * 10);
    INFO(describe(topology));
    const Crossing found =
        crossing(call, topology, make_all(*find(Collective::allreduce, "hierarchical"), call, topology, 4));
    for (int host = 0; host < hosts.count(); ++host) {
      CHECK(found.out.at(host) == 2 * (count - 1) * call.count / count);
      CHECK(found.in.at(host) == 2 * (count - 1) * call.count / count);
    }
  }
}

TEST_CASE("hierarchical: on hosts of equal size every rank sends and receives as much over the network") {
  for (const Topology& topology : {in_blocks({4, 4, 4}), round_robin(12, 3)}) {
    const Hosts hosts(topology);
    const Call call = a_call(Collective::allreduce, 12 * 10);
    const std::vector<Schedule> schedules = make_all(*find(Collective::allreduce, "hierarchical"), call, topology, 4);
    for (int rank = 0; rank < topology.size; ++rank) {
      std::size_t out = 0;
      for (const PeerTotals& peer : totals(call, topology.size, rank, schedules[static_cast<std::size_t>(rank)]).peers)
        if (hosts.of(peer.peer) != hosts.of(rank)) out += peer.sent;
      CHECK(out == 2 * 2 * 10);  // 2(H-1) times a block of its column's 3
    }
  }
}

TEST_CASE("hierarchical: a broadcast crosses each host once, an allgather brings each host what it has not") {
  for (const Topology& topology : placements()) {
    const Hosts hosts(topology);
    const auto made = [&](const Call& call) {
      return crossing(call, topology, make_all(*find(call.collective, "hierarchical"), call, topology, 3));
    };
    INFO(describe(topology));
    Call broadcast = a_call(Collective::broadcast, 100);
    broadcast.root = topology.size / 2;
    Crossing passed = made(broadcast);
    Crossing gathered = made(a_call(Collective::allgather, 7));
    const int first = hosts.of(broadcast.root);
    for (int host = 0; host < hosts.count(); ++host) {
      const int next = wrap(host + 1, hosts.count());
      const auto others = [&](int of) { return static_cast<std::size_t>(topology.size) - hosts.ranks(of).size(); };
      CHECK(passed.in[host] == (host == first ? 0u : 100u));
      CHECK(passed.out[host] == (next == first ? 0u : 100u));
      CHECK(gathered.in[host] == others(host) * 7);
      CHECK(gathered.out[host] == others(next) * 7);
    }
  }
}

TEST_CASE("leaders: one rank of each host uses the network, with as many vectors as doubling has rounds") {
  const Topology topology = round_robin(12, 4);
  const Call call = a_call(Collective::allreduce, 24);
  const std::vector<Schedule> schedules = make_all(*find(Collective::allreduce, "leaders"), call, topology, 24);
  for (const auto& [host, out] : crossing(call, topology, schedules).out) CHECK(out == 2 * 24);
  for (int rank = 4; rank < 12; ++rank) CHECK(schedules[static_cast<std::size_t>(rank)].lanes.size() == 1);
}
