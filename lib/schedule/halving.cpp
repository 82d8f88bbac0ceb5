#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>
#include <vector>

namespace anello::schedule {
namespace {

// The half of the blocks of a group of 2 * distance ranks that belongs to `rank`'s half of the group.
Part half_of(int rank, int distance, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(distance);
  const std::size_t first = static_cast<std::size_t>(rank) / ranks * ranks;
  return {first * count, ranks * count};
}

Part piece(Part whole, Part of) { return {whole.offset + of.offset, of.count}; }

// As above, but the whole may be one element shorter than the vector that was cut.
Part within(Part whole, Part of) {
  const std::size_t begin = std::min(of.offset, whole.count);
  return {whole.offset + begin, std::min(of.count, whole.count - begin)};
}

// Adjacent blocks of an all-reduce, and the beginning of their second half.
struct Range {
  Part whole;
  std::size_t middle;

  Part half(bool upper) const {
    const std::size_t end = whole.offset + whole.count;
    return upper ? Part{middle, end - middle} : Part{whole.offset, middle - whole.offset};
  }
};

// The partner, and the blocks to send and to keep, out of those that both still have. In the next round, a rank and its
// partner each send one half of the blocks that they kept.
struct Round {
  int partner;
  Range going;
  Range staying;
  bool passes_upper;
};

std::vector<Round> rounds_of(const Split& blocks, int size, int rank) {
  const auto range = [&](int first, int ranks) {
    const Part last = blocks.block(first + ranks - 1);
    const std::size_t begin = blocks.block(first).offset;
    return Range{{begin, last.offset + last.count - begin}, blocks.block(first + ranks / 2).offset};
  };
  std::vector<Round> rounds;
  int first = 0;
  int half = size / 2;
  for (int distance = 1; distance < size; distance *= 2, half /= 2) {
    const int above = first + half;
    const bool upper = (rank & distance) != 0;
    const bool passes_upper = (rank & (distance * 2)) == 0;
    rounds.push_back(
        {rank ^ distance, range(upper ? first : above, half), range(upper ? above : first, half), passes_upper});
    if (upper) first = above;
  }
  return rounds;
}

}  // namespace

// With four ranks; a number in brackets counts the ranks whose input is in a block.
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
  // The kept blocks have the same layout in scratch as in the first half that was kept, except for the result.
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

// The rounds in reverse: a rank and its partner exchange their blocks of a group.
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
    // This step comes here so that it fills the time while data is in flight.
    if (distance == 1) steps.copy(output(own), input({0, call.count}));
  }
  return std::move(steps).build();
}

// Four ranks.
//
//               rank 0               rank 1               rank 2               rank 3
//   1 apart     sends 2 3 to 1       sends 0 1 to 0       sends 2 3 to 3       sends 0 1 to 2
//               has 0(2) 1(2)        has 2(2) 3(2)        has 0(2) 1(2)        has 2(2) 3(2)
//   2 apart     sends 1(2) to 2      sends 3(2) to 3      sends 0(2) to 0      sends 2(2) to 1
//               has 0(4)             has 2(4)             has 1(4)             has 3(4)
//   2 apart     sends 0 to 2         sends 2 to 3         sends 1 to 0         sends 3 to 1
//   1 apart     sends 0 1 to 1       sends 2 3 to 0       sends 0 1 to 3       sends 2 3 to 2
//
// The long messages are between neighbours, which are more likely to be near each other. A rank first sends the blocks
// that their receiver forwards next and, on the way back, those that it has had for longest, so that the links have
// work while the last chunks of a round arrive. Requires: the number of ranks is a power of two.
Schedule halving_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("halving", call, topology, rank);
  const std::vector<Round> rounds = rounds_of(Split(call.count, topology.size, 1), topology.size, rank);
  // Both ends cut in the same way. A part that fits into a chunk is sent whole.
  const auto each_chunk = [&](const Range& one, const Range& other, bool upper_first, auto&& add) {
    if (std::max(one.whole.count, other.whole.count) <= chunk) return add(one.whole, other.whole);
    for (const bool upper : {upper_first, !upper_first}) {
      const Part a = one.half(upper);
      const Part b = other.half(upper);
      const Split cuts(std::max(a.count, b.count), 1, chunk);
      for (std::size_t c = 0; c < cuts.chunks(); ++c) add(within(a, cuts.chunk(0, c)), within(b, cuts.chunk(0, c)));
    }
  };

  for (const Round& round : rounds) {
    const bool first = &round == &rounds.front();
    const bool last = &round == &rounds.back();
    const Order order = round.partner < rank ? Order::reversed : Order::plain;
    each_chunk(round.going, round.staying, round.passes_upper, [&](Part gone, Part kept) {
      steps.send(round.partner, first ? input(gone) : output(gone));
      steps.recv_reduce(round.partner, output(kept), first ? input(kept) : output(kept), order);
      if (last && call.finish) steps.finish(output(kept), output(kept));
    });
  }
  std::for_each(rounds.rbegin(), rounds.rend(), [&](const Round& round) {
    each_chunk(round.staying, round.going, !round.passes_upper, [&](Part done, Part other) {
      steps.send(round.partner, output(done));
      steps.recv(round.partner, output(other));
    });
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
