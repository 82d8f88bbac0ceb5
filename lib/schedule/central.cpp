// Schedules in which one rank works in the memory of all, and the others wait: where ranks' work runs in turns anyway,
// and a change of turns is dear, as on a device that several processes share.
#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

Schedule central_allreduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("central", call, topology, rank);
  steps.touches_peers(true, true);
  const Part all{0, call.count};
  if (rank == 0) steps.reduce_ranks(output_of(kEach, all), input_of(kEach, all));
  steps.barrier();
  return std::move(steps).build();
}

Schedule central_reduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("central", call, topology, rank);
  steps.touches_peers(true, true);
  const Part all{0, call.count};
  if (rank == call.root) steps.reduce_ranks(output(all), input_of(kEach, all));
  steps.barrier();
  return std::move(steps).build();
}

Schedule central_broadcast(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("central", call, topology, rank);
  steps.touches_peers(false, true);
  const Part all{0, call.count};
  if (rank == call.root) steps.copy(output_of(kEach, all), output(all));
  steps.barrier();
  return std::move(steps).build();
}

Schedule central_allgather(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("central", call, topology, rank);
  steps.touches_peers(true, true);
  for (int owner = 0; owner < topology.size && rank == 0; ++owner)
    steps.copy(output_of(kEach, {static_cast<std::size_t>(owner) * call.count, call.count}),
               input_of(owner, {0, call.count}));
  steps.barrier();
  return std::move(steps).build();
}

}  // namespace anello::schedule
