#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// One message for each rank, in one piece: the executor cuts it while sending.

Schedule direct_gather(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  if (rank != call.root) {
    steps.send(call.root, input({0, call.count}));
    return std::move(steps).build();
  }
  const Split split(call.count * static_cast<std::size_t>(topology.size), topology.size, call.count);
  for (int d = 1; d < topology.size; ++d) {
    const int peer = wrap(rank + d, topology.size);
    steps.recv(peer, output(split.block(peer)));
  }
  steps.copy(output(split.block(rank)), input({0, call.count}));
  return std::move(steps).build();
}

Schedule direct_scatter(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  if (rank != call.root) {
    steps.recv(call.root, output({0, call.count}));
    return std::move(steps).build();
  }
  const Split split(call.count * static_cast<std::size_t>(topology.size), topology.size, call.count);
  for (int d = 1; d < topology.size; ++d) {
    const int peer = wrap(rank + d, topology.size);
    steps.send(peer, input(split.block(peer)));
  }
  if (!call.in_place) steps.copy(output({0, call.count}), input(split.block(rank)));
  return std::move(steps).build();
}

}  // namespace anello::schedule
