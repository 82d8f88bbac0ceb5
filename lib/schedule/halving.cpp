#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {
namespace {

// Of the blocks of a group of 2 * distance ranks, the half that belongs to `rank`'s half of the group.
Part half_of(int rank, int distance, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(distance);
  const std::size_t first = static_cast<std::size_t>(rank) / ranks * ranks;
  return {first * count, ranks * count};
}

Part piece(Part whole, Part of) { return {whole.offset + of.offset, of.count}; }

}  // namespace

// Four ranks; a number in brackets counts the ranks whose input is in a block.
//
//               rank 0               rank 1               rank 2               rank 3
//   2 apart     sends 2 3 to 2       sends 2 3 to 3       sends 0 1 to 0       sends 0 1 to 1
//               has 0(2) 1(2)        has 0(2) 1(2)        has 2(2) 3(2)        has 2(2) 3(2)
//   1 apart     sends 1(2) to 1      sends 0(2) to 0      sends 3(2) to 3      sends 2(2) to 2
//               has 0(4)             has 1(4)             has 2(4)             has 3(4)
//
// Requires: the number of ranks is a power of two.
Schedule halving_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("halving", call, topology, rank);
  const auto own = static_cast<std::size_t>(rank) * call.count;
  // What is kept lies in scratch as in the first half kept, but for the result.
  const int farthest = topology.size / 2;
  const std::size_t kept_from = half_of(rank, farthest, call.count).offset;
  const auto partial = [&](Part part) { return Slice{Buffer::scratch, part.offset - kept_from, part.count}; };

  for (int distance = farthest; distance > 0; distance /= 2) {
    const int partner = rank ^ distance;
    const Order order = partner < rank ? Order::reversed : Order::plain;
    const Part going = half_of(partner, distance, call.count);
    const Part staying = half_of(rank, distance, call.count);
    const Split split(going.count, 1, chunk);
    for (std::size_t c = 0; c < split.chunks(); ++c) {
      const Part gone = piece(going, split.chunk(0, c));
      const Part kept = piece(staying, split.chunk(0, c));
      const bool first = distance == farthest;
      const bool last = distance == 1;
      const Part result{kept.offset - own, kept.count};
      steps.send(partner, first ? input(gone) : partial(gone));
      steps.recv_reduce(partner, last ? output(result) : partial(kept), first ? input(kept) : partial(kept), order);
      if (last && call.finish) steps.finish(output(result), output(result));
    }
  }
  return std::move(steps).build();
}

// The same backwards: what a rank has of a group's blocks changes places with what its partner has.
Schedule doubling_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("doubling", call, topology, rank);
  const Part own{static_cast<std::size_t>(rank) * call.count, call.count};

  for (int distance = 1; distance < topology.size; distance *= 2) {
    const int partner = rank ^ distance;
    const Part going = half_of(rank, distance, call.count);
    const Part coming = half_of(partner, distance, call.count);
    const Split split(going.count, 1, chunk);
    for (std::size_t c = 0; c < split.chunks(); ++c) {
      const Part part = split.chunk(0, c);
      steps.send(partner, distance == 1 ? input(part) : output(piece(going, part)));
      steps.recv(partner, output(piece(coming, part)));
    }
    // Only here, so that it fills the time in which data is on its way.
    if (distance == 1) steps.copy(output(own), input({0, call.count}));
  }
  return std::move(steps).build();
}

}  // namespace anello::schedule
