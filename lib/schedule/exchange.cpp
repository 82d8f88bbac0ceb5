#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// Who needs nobody's payload (a broadcast's root, a reduction's other ranks) leaves at once; the board sees to it that
// it does not get too far ahead.
Schedule exchange(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("exchange", call, topology, rank);
  steps.exchange(output({0, result_count(call, topology.size, rank)}),
                 input({0, input_count(call, topology.size, rank)}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
