#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// Not for broadcast: there the root may leave before the others have come, and its line of the board would not be
// its own again until they have.
Schedule exchange(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("exchange", call, topology, rank);
  const Part one{0, call.count};
  const Part all{0, call.count * static_cast<std::size_t>(topology.size)};
  const Part into = call.collective == Collective::allgather ? all : one;
  const Part from = call.collective == Collective::reduce_scatter ? all : one;
  steps.exchange(output(into), input(from));
  return std::move(steps).build();
}

}  // namespace anello::schedule
