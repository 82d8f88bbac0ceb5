#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// Not for broadcast: there the root may leave before the others have come, and its line of the board would not be
// its own again until they have.
Schedule exchange(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("exchange", call, topology, rank);
  steps.exchange(output({0, result_count(call, topology.size, rank)}), input({0, input_count(call, topology.size, rank)}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
