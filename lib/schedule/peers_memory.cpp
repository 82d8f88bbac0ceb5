// Schedules over peers' memory: every rank loads what it needs from where it lies, and no message is sent. All ranks
// have entered the call before any step runs, so inputs are there; each leaves behind a meet, when nobody touches its
// buffers any more.
#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>

namespace anello::schedule {
namespace {

// Blocks begin at cache lines where the buffers do: no line is written by two ranks, and vector loads stay aligned.
constexpr std::size_t kAlignBytes = 64;

Part own_block(const Call& call, int size, int rank) {
  return aligned_block(call.count, size, std::max<std::size_t>(kAlignBytes / call.element_bytes, 1), rank);
}

// P parts of call.count elements.
Part part_of(const Call& call, int rank) { return {static_cast<std::size_t>(rank) * call.count, call.count}; }

}  // namespace

// 2 P of the vector's bytes move, the fewest: each element is loaded from P inputs and stored into P outputs while it is
// in a register.
Schedule direct_allreduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  const Part own = own_block(call, topology.size, rank);
  steps.fold(output_of(kEach, own), input_of(kEach, own));
  steps.meet();
  return std::move(steps).build();
}

Schedule attach_allreduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("attach", call, topology, rank);
  const Part own = own_block(call, topology.size, rank);
  steps.fold(output(own), input_of(kEach, own));
  steps.meet();
  // From the next rank on: else all would load the same block at once.
  for (int d = 1; d < topology.size; ++d) {
    const int owner = wrap(rank + d, topology.size);
    const Part block = own_block(call, topology.size, owner);
    steps.copy(output(block), output_of(owner, block));
  }
  steps.meet();
  return std::move(steps).build();
}

Schedule direct_reduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  const Part own = own_block(call, topology.size, rank);
  steps.fold(output_of(call.root, own), input_of(kEach, own));
  steps.meet();
  return std::move(steps).build();
}

Schedule direct_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  const Part result{0, call.count};
  // In place the result takes the place of block 0 of the inputs, which rank 0 folds, perhaps later.
  const bool aside = call.in_place && rank != 0;
  const Slice folded = aside ? Slice{Buffer::scratch, 0, call.count} : output(result);
  steps.fold(folded, input_of(kEach, part_of(call, rank)));
  steps.meet();
  if (aside) steps.copy(output(result), folded);
  return std::move(steps).build();
}

Schedule direct_allgather(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  for (int d = 1; d < topology.size; ++d) {
    const int peer = wrap(rank + d, topology.size);
    steps.copy(output(part_of(call, peer)), input_of(peer, {0, call.count}));
  }
  steps.meet();
  steps.copy(output(part_of(call, rank)), input({0, call.count}));
  return std::move(steps).build();
}

Schedule direct_broadcast(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  const Part all{0, call.count};
  steps.copy(output(all), output_of(call.root, all));  // the root's: onto itself
  steps.meet();
  return std::move(steps).build();
}

Schedule direct_alltoall(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  // In place the parts that arrive take the place of those that others still need.
  const Buffer results = call.in_place ? Buffer::scratch : Buffer::output;
  const auto arrived = [&](int d) {
    const Part part = part_of(call, call.in_place ? d - 1 : wrap(rank + d, topology.size));
    return Slice{results, part.offset, part.count};
  };
  for (int d = 1; d < topology.size; ++d)
    steps.copy(arrived(d), input_of(wrap(rank + d, topology.size), part_of(call, rank)));
  steps.meet();
  if (call.in_place)
    for (int d = 1; d < topology.size; ++d) steps.copy(output(part_of(call, wrap(rank + d, topology.size))), arrived(d));
  steps.copy(output(part_of(call, rank)), input(part_of(call, rank)));
  return std::move(steps).build();
}

}  // namespace anello::schedule
