#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {
namespace {

// In round k, a rank sends its sum of the 2^k ranks up to itself to the rank 2^k above. Ranks below `first` take no
// part; start is the own vector of the others. A round does not overwrite the data that it sends, because this would
// serialise the ranks: values alternate between the halves of the scratch buffer, and the last one is the output.
void rounds(Builder& steps, const Split& split, std::size_t count, int first, int size, int rank, Buffer start) {
  const int self = rank - first;
  const auto half = [&](std::size_t round, Part part) {
    return Slice{Buffer::scratch, round % 2 * count + part.offset, part.count};
  };
  std::size_t round = 0;
  bool in_scratch = false;
  bool complete = start == Buffer::output;
  for (int distance = 1; distance < size - first; distance *= 2, ++round) {
    const bool receives = self >= distance;
    const bool last = self < 2 * distance;
    for (std::size_t c = 0; c < split.chunks(); ++c) {
      const Part part = split.chunk(0, c);
      const Slice value = in_scratch ? half(round + 1, part)
                          : complete ? output(part)
                                     : Slice{start, part.offset, part.count};
      const Slice next = last ? output(part) : half(round, part);
      if (rank + distance < size) steps.send(rank + distance, value);
      if (receives) steps.recv_reduce(rank - distance, next, value, Order::reversed);
    }
    if (receives) {
      in_scratch = !last;
      complete = last;
    }
  }
}

}  // namespace

Schedule doubling_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Split split(call.count, 1, chunk);
  Builder steps("doubling", call, topology, rank);
  rounds(steps, split, call.count, 0, topology.size, rank, Buffer::input);
  if (rank == 0) steps.copy(output({0, call.count}), input({0, call.count}));
  return std::move(steps).build();
}

// The vectors move up by one rank; ranks 1, 2, .. form the results from these.
Schedule doubling_exscan(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const bool last = rank + 1 == topology.size;
  const Split split(call.count, 1, chunk);
  Builder steps("doubling", call, topology, rank);
  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    if (!last) steps.send(rank + 1, input(part));
    if (rank > 0) steps.recv(rank - 1, output(part));
  }
  if (rank > 0) rounds(steps, split, call.count, 1, topology.size, rank, Buffer::output);
  return std::move(steps).build();
}

}  // namespace anello::schedule
