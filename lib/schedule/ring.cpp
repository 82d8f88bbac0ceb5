#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/waves.h"

#include <algorithm>

namespace anello::schedule {

// With three ranks and blocks 0 1 2; a number in brackets counts the ranks whose input is in the block. Every rank
// sends to the next.
//
//            rank 0            rank 1            rank 2
//   step 0   sends 0, adds 2   sends 1, adds 0   sends 2, adds 1      scatter-reduce
//   step 1   sends 2(2)        sends 0(2)        sends 1(2)
//            adds 1 -> 1(3)    adds 2 -> 2(3)    adds 0 -> 0(3)       rank r owns block r+1
//   step 2   sends 1, gets 0   sends 2, gets 1   sends 0, gets 2      allgather
//   step 3   sends 0, gets 2   sends 1, gets 0   sends 2, gets 1
//
// A block is sent in chunks. A reduced chunk can be sent on while the next chunk of its block is still arriving.

Schedule ring_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const int next = wrap(rank + 1, size);
  const int prev = wrap(rank - 1, size);
  const Split split(call.count, size, chunk);
  Builder steps("ring", call, topology, rank);

  in_waves(2 * (size - 1), split.chunks(), [&](int i, std::size_t c) {
    const Part going = split.chunk(rank - i, c);
    const Part coming = split.chunk(rank - i - 1, c);
    steps.send(next, i == 0 ? input(going) : output(going));
    if (i + 1 >= size) {
      steps.recv(prev, output(coming));
      return;
    }
    // Reversed: block b is reduced in the order b, b+1, ..
    steps.recv_reduce(prev, output(coming), input(coming), Order::reversed);
    if (call.finish && i + 2 == size) steps.finish(output(coming), output(coming));
  });
  return std::move(steps).build();
}

Schedule ring_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const int next = wrap(rank + 1, size);
  const int prev = wrap(rank - 1, size);
  const Split split(call.count * static_cast<std::size_t>(size), size, chunk);
  Builder steps("ring", call, topology, rank);

  // Partial results of step i lie in half i % 2 of the scratch buffer. With one half, a rank could receive the next
  // chunk only after it had sent the last one, which in turn waits for the next rank to receive it, and so on around
  // the ring.
  const auto partial = [&](int i, Part part) {
    const std::size_t in_block = part.offset % call.count;
    return Slice{Buffer::scratch, static_cast<std::size_t>(i % 2) * call.count + in_block, part.count};
  };
  in_waves(size - 1, split.chunks(), [&](int i, std::size_t c) {
    const Part going = split.chunk(rank - 1 - i, c);
    const Part coming = split.chunk(rank - 2 - i, c);
    const bool last = i + 2 == size;
    const Part result{coming.offset % call.count, coming.count};
    steps.send(next, i == 0 ? input(going) : partial(i - 1, going));
    steps.recv_reduce(prev, last ? output(result) : partial(i, coming), input(coming), Order::reversed);
    if (call.finish && last) steps.finish(output(result), output(result));
  });
  return std::move(steps).build();
}

Schedule ring_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const int next = wrap(rank + 1, size);
  const int prev = wrap(rank - 1, size);
  const Split split(call.count * static_cast<std::size_t>(size), size, chunk);
  Builder steps("ring", call, topology, rank);

  in_waves(size - 1, split.chunks(), [&](int i, std::size_t c) {
    const Part going = split.chunk(rank - i, c);
    const Part own{going.offset % call.count, going.count};
    steps.send(next, i == 0 ? input(own) : output(going));
    steps.recv(prev, output(split.chunk(rank - i - 1, c)));
  });
  // This step is last so that it fills the time while data is in flight.
  steps.copy(output(split.block(rank)), input({0, call.count}));
  return std::move(steps).build();
}

// All ranks know all counts, so chunks past the end of a block vanish everywhere.
Schedule ring_allgatherv(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Varying& parts = *call.varying;
  const int size = topology.size;
  const int next = wrap(rank + 1, size);
  const int prev = wrap(rank - 1, size);
  const std::size_t longest = *std::max_element(parts.receives.begin(), parts.receives.end());
  Builder steps("ring", call, topology, rank);

  const auto in_block = [&](std::size_t block, std::size_t c) {
    const std::size_t begin = std::min(c * chunk, parts.receives[block]);
    return Part{begin, std::min(chunk, parts.receives[block] - begin)};
  };
  const auto gathered = [&](std::size_t block, Part part) {
    return output({parts.receive_at[block] + part.offset, part.count});
  };
  in_waves(size - 1, (longest + chunk - 1) / chunk, [&](int i, std::size_t c) {
    const auto going = static_cast<std::size_t>(wrap(rank - i, size));
    const auto coming = static_cast<std::size_t>(wrap(rank - i - 1, size));
    const Part part = in_block(going, c);
    steps.send(next, i == 0 ? input(part) : gathered(going, part));
    steps.recv(prev, gathered(coming, in_block(coming, c)));
  });
  const auto self = static_cast<std::size_t>(rank);
  steps.copy(gathered(self, {0, parts.receives[self]}), input({0, parts.receives[self]}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
