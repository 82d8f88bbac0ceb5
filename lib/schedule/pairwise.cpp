#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>

namespace anello::schedule {
namespace {

// The number of chunks that are reduced at once. Each has an accumulator, so a slow rank holds up one chunk and not the
// next ones.
constexpr std::size_t kSlots = 4;
// A finished chunk is sent to the others this many chunks later: sends of inputs that others need go first.
constexpr std::size_t kLookahead = 2;

// The owner's side of one chunk: combines all ranks' inputs into result.
class Reduction {
 public:
  Reduction(Builder& steps, const Call& call, int size, int rank, std::size_t longest)
      : steps_(steps), call_(call), size_(size), rank_(rank), longest_(longest) {}

  void chunk(std::size_t c, Slice result, Slice own) {
    const Slice sum = call_.invariant ? in_rank_order(c, result, own) : staggered(c, result, own);
    if (call_.accumulate || call_.finish) steps_.finish(result, sum);
  }

 private:
  Slice slot(Buffer buffer, std::size_t c, std::size_t count) const { return {buffer, c % kSlots * longest_, count}; }

  // The order is own, rank - 1, rank - 2, ..: at any moment the owners wait for different ranks. Returns the place of
  // the sum.
  Slice staggered(std::size_t c, Slice result, Slice own) {
    const Slice sum = call_.accumulate ? slot(Buffer::accumulator, c, result.count) : result;
    if (call_.accumulate) steps_.copy(sum, own);
    for (int d = 1; d < size_; ++d)
      steps_.recv_reduce(wrap(rank_ - d, size_), sum, d == 1 && !call_.accumulate ? own : sum);
    return sum;
  }

  // The order is 0, 1, 2, .. for every owner.
  Slice in_rank_order(std::size_t c, Slice result, Slice own) {
    // In place, the result's memory holds this rank's own input until it is reduced.
    const bool aside = !call_.accumulate && rank_ > 0 && steps_.resolve(own) == steps_.resolve(result);
    Slice sum = call_.accumulate ? slot(Buffer::accumulator, c, result.count)
                : aside          ? slot(Buffer::scratch, c, result.count)
                                 : result;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && peer == 0) {
        steps_.recv(peer, sum);
      } else if (peer != rank_) {
        steps_.recv_reduce(peer, sum, sum);
      } else if (peer == 0) {
        steps_.copy(sum, own);
      } else if (aside) {
        steps_.reduce(result, sum, Order::reversed);
        sum = result;
      } else {
        steps_.reduce(sum, own);
      }
    }
    return sum;
  }

  Builder& steps_;
  const Call& call_;
  int size_;
  int rank_;
  std::size_t longest_;
};

// Each rank reduces one block of the input. chunk_of(block, c): chunk c of a block, empty past its end.
template <class ChunkOf>
Schedule reduce_blocks(const Call& call, const Topology& topology, int rank, std::size_t chunks, std::size_t longest,
                       ChunkOf&& chunk_of) {
  const int size = topology.size;
  Builder steps("pairwise", call, topology, rank);
  Reduction reduction(steps, call, size, rank, longest);
  const std::size_t first = chunk_of(rank, 0).offset;
  // In place, a result replaces this rank's block, which no other rank gets, or the corresponding part of the first
  // block, which has been sent by then; if blocks differ in length, it may replace any part.
  const bool over_others = call.in_place && !call.own_part;
  const Buffer results = over_others && call.varying != nullptr ? Buffer::scratch : Buffer::output;

  std::size_t done = 0;
  for (std::size_t c = 0; c < chunks; ++c) {
    for (int d = 1; d < size; ++d) steps.send(wrap(rank + d, size), input(chunk_of(rank + d, c)));
    const Part own = chunk_of(rank, c);
    reduction.chunk(c, {results, own.offset - first, own.count}, input(own));
    done += own.count;
  }
  if (results == Buffer::scratch) steps.copy(output({0, done}), {results, 0, done});
  return std::move(steps).build();
}

}  // namespace

Schedule pairwise_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const Split split(call.count, size, chunk);
  Builder steps("pairwise", call, topology, rank);
  Reduction reduction(steps, call, size, rank, split.longest());

  const auto collect = [&](std::size_t c) {
    for (int d = 1; d < size; ++d) steps.send(wrap(rank + d, size), input(split.chunk(rank + d, c)));
    reduction.chunk(c, output(split.chunk(rank, c)), input(split.chunk(rank, c)));
  };
  const auto hand_out = [&](std::size_t c) {
    for (int d = 1; d < size; ++d) {
      steps.send(wrap(rank + d, size), output(split.chunk(rank, c)));
      steps.recv(wrap(rank - d, size), output(split.chunk(rank - d, c)));
    }
  };
  for (std::size_t c = 0; c < split.chunks() + kLookahead; ++c) {
    if (c < split.chunks()) collect(c);
    if (c >= kLookahead) hand_out(c - kLookahead);
  }
  return std::move(steps).build();
}

Schedule pairwise_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const bool root = rank == call.root;
  const Split split(call.count, size, chunk);
  Builder steps("pairwise", call, topology, rank);
  Reduction reduction(steps, call, size, rank, split.longest());

  const auto result = [&](std::size_t c) {
    const Part own = split.chunk(rank, c);
    return root ? output(own) : Slice{Buffer::scratch, c % kSlots * split.longest(), own.count};
  };
  for (std::size_t c = 0; c < split.chunks() + kLookahead; ++c) {
    if (c < split.chunks()) {
      for (int d = 1; d < size; ++d) steps.send(wrap(rank + d, size), input(split.chunk(rank + d, c)));
      reduction.chunk(c, result(c), input(split.chunk(rank, c)));
    }
    if (c < kLookahead) continue;
    if (!root) {
      steps.send(call.root, result(c - kLookahead));
      continue;
    }
    for (int d = 1; d < size; ++d) steps.recv(wrap(rank - d, size), output(split.chunk(rank - d, c - kLookahead)));
  }
  return std::move(steps).build();
}

Schedule pairwise_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Split split(call.count * static_cast<std::size_t>(topology.size), topology.size, chunk);
  return reduce_blocks(call, topology, rank, split.chunks(), split.longest(),
                       [&](int block, std::size_t c) { return split.chunk(block, c); });
}

Schedule pairwise_reduce_scatterv(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Varying& blocks = *call.varying;
  const std::size_t most = *std::max_element(blocks.sends.begin(), blocks.sends.end());
  return reduce_blocks(call, topology, rank, (most + chunk - 1) / chunk, std::min(most, chunk),
                       [&](int block, std::size_t c) {
    const auto b = static_cast<std::size_t>(wrap(block, topology.size));
    const std::size_t begin = std::min(c * chunk, blocks.sends[b]);
    return Part{blocks.send_at[b] + begin, std::min(chunk, blocks.sends[b] - begin)};
  });
}

Schedule pairwise_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const Split split(call.count * static_cast<std::size_t>(size), size, chunk);
  Builder steps("pairwise", call, topology, rank);

  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part own = split.chunk(rank, c);
    for (int d = 1; d < size; ++d) {
      steps.send(wrap(rank + d, size), input({own.offset % call.count, own.count}));
      steps.recv(wrap(rank - d, size), output(split.chunk(rank - d, c)));
    }
  }
  steps.copy(output(split.block(rank)), input({0, call.count}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
