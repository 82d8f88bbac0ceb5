#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// A rank that needs no payload (a broadcast's root, the other ranks of a reduction to a root) leaves at once; the board
// keeps it from running too far ahead.
Schedule exchange(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("exchange", call, topology, rank);
  steps.exchange(output({0, result_count(call, topology.size, rank)}),
                 input({0, input_count(call, topology.size, rank)}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
