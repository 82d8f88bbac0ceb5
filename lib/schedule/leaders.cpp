#include "schedule/algorithms.h"
#include "schedule/doubling.h"
#include "schedule/hosts.h"

namespace anello::schedule {

// The lowest rank of each host, its leader, folds the host's vectors in the order of rank. Leaders alone use the network.
// On one host the same of ranks that share processors: each of their leaders has processors of its own.
Schedule leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Hosts hosts = is_nested(topology) ? Hosts(topology) : Hosts(topology.processors_of);
  const std::vector<int>& locals = hosts.ranks(hosts.of(rank));
  const Split split(call.count, 1, chunk);
  Builder steps("leaders", call, topology, rank);

  const auto each_chunk = [&](auto&& add) {
    for (std::size_t c = 0; c < split.chunks(); ++c) add(split.chunk(0, c));
  };
  if (rank != locals[0]) {
    each_chunk([&](Part part) { steps.send(locals[0], input(part)); });
    each_chunk([&](Part part) { steps.recv(locals[0], output(part)); });
    return std::move(steps).build();
  }
  each_chunk([&](Part part) {
    for (std::size_t i = 1; i < locals.size(); ++i)
      steps.recv_reduce(locals[i], output(part), i == 1 ? input(part) : output(part));
  });
  std::vector<int> leaders;
  for (int host = 0; host < hosts.count(); ++host) leaders.push_back(hosts.ranks(host)[0]);
  double_up(steps, call, split, leaders, rank, locals.size() > 1 ? Buffer::output : Buffer::input);
  each_chunk([&](Part part) {
    for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], output(part));
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
