#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// With four ranks and root 1, every chunk takes this path, and the next chunks follow:
//
//   rank 2: a     rank 3: a+b     rank 0: a+b+c     rank 1: a+b+c+d
//
// Each rank sends the vector once and receives it once. A scatter of the sums and a gather at the root would send more:
// all but one part of the sums would cross the root's link a second time.

namespace {

// The number of chunks in flight at one rank. No rank waits for a later one, so any number works.
constexpr std::size_t kSlots = 4;

}  // namespace

Schedule chain_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const int next = wrap(rank + 1, size);
  const int prev = wrap(rank - 1, size);
  const bool first = prev == call.root;
  const Split split(call.count, 1, chunk);
  Builder steps("chain", call, topology, rank);

  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    const bool last = rank == call.root;
    const Slice sum = last ? output(part) : Slice{Buffer::scratch, c % kSlots * split.longest(), part.count};
    if (!first) steps.recv_reduce(prev, sum, input(part), Order::reversed);
    if (!last)
      steps.send(next, first ? input(part) : sum);
    else if (call.finish)
      steps.finish(sum, sum);
  }
  return std::move(steps).build();
}

// The ranks send finished results, formed in rank order, so the bits equal those of a single owner (invariant).
Schedule chain_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const bool last = rank + 1 == topology.size;
  const Split split(call.count, 1, chunk);
  Builder steps("chain", call, topology, rank);

  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    if (rank > 0)
      steps.recv_reduce(rank - 1, output(part), input(part), Order::reversed);
    else
      steps.copy(output(part), input(part));
    if (!last) steps.send(rank + 1, output(part));
  }
  return std::move(steps).build();
}

Schedule chain_exscan(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const bool last = rank + 1 == topology.size;
  const Split split(call.count, 1, chunk);
  Builder steps("chain", call, topology, rank);

  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    if (rank == 0) {
      steps.send(1, input(part));
      continue;
    }
    // The copy comes first: in place, the arriving data replaces the input.
    const Slice sum{Buffer::scratch, c % kSlots * split.longest(), part.count};
    if (!last) steps.copy(sum, input(part));
    steps.recv(rank - 1, output(part));
    if (last) continue;
    steps.reduce(sum, output(part), Order::reversed);
    steps.send(rank + 1, sum);
  }
  return std::move(steps).build();
}

}  // namespace anello::schedule
