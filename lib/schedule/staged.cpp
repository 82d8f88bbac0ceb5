// Schedules over staging memory, for buffers that peers cannot reach: what others need of mine I copy to where they load
// it. Round by round, so that what was stored last is still in the cache when it is loaded; two meets a round, or one
// where rounds take turns in two halves of the memory.
#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>

namespace anello::schedule {
namespace {

constexpr std::size_t kAlignBytes = 64;

// Elements of a cache line, and of one rank's staging memory.
struct Room {
  Room(const Call& call, const Topology& topology)
      : line(std::max<std::size_t>(kAlignBytes / call.element_bytes, 1)), elements(topology.staging_bytes / call.element_bytes) {}
  // So much, of `parts` parts of a half, at whole lines where there are any.
  std::size_t part_of_half(std::size_t parts, std::size_t wish) const {
    std::size_t part = std::max<std::size_t>(std::min(elements / 2 / parts, wish), 1);
    if (part > line) part -= part % line;
    return part;
  }
  std::size_t line;
  std::size_t elements;
};

// `round` of a vector of count elements, one after the other: visit(turn, part).
template <class Visit>
void each_round(std::size_t count, std::size_t round, Visit&& visit) {
  std::size_t turn = 0;
  for (std::size_t at = 0; at < count; at += round) visit(turn++, Part{at, std::min(round, count - at)});
}

Part shifted(Part part, std::size_t by) { return {part.offset + by, part.count}; }

// A round of a vector that every rank reduces its block of. The upper half is for results.
struct Blocks {
  Blocks(Part round, const Room& room, int size) : whole(round), room_(room), size_(size) {}
  Part of(int rank) const { return shifted(aligned_block(whole.count, size_, room_.line, rank), whole.offset); }
  Part staged(int rank) const { return aligned_block(whole.count, size_, room_.line, rank); }
  Part result(int rank) const { return {room_.elements / 2, of(rank).count}; }
  const Part whole;

 private:
  const Room& room_;
  const int size_;
};

// All blocks of the round but the own one go to where their owners fold them with their own; into `into`.
void fold_round(Builder& steps, const Blocks& blocks, int rank, Slice into) {
  const Part own = blocks.of(rank), staged = blocks.staged(rank);
  const std::size_t end = blocks.whole.count, after = staged.offset + staged.count;
  steps.copy(staging({0, staged.offset}), input({blocks.whole.offset, staged.offset}));
  steps.copy(staging({after, end - after}), input({blocks.whole.offset + after, end - after}));
  steps.meet();
  steps.fold_staged(into, input(own), staged.offset);
}

}  // namespace

Schedule staged_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  each_round(call.count, room.part_of_half(1, chunk), [&](std::size_t, Part round) {
    const Blocks blocks(round, room, topology.size);
    fold_round(steps, blocks, rank, output(blocks.of(rank)));
    steps.copy(staging(blocks.result(rank)), output(blocks.of(rank)));
    steps.meet();
    for (int d = 1; d < topology.size; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(output(blocks.of(owner)), staging_of(owner, blocks.result(owner)));
    }
  });
  return std::move(steps).build();
}

Schedule staged_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  each_round(call.count, room.part_of_half(1, chunk), [&](std::size_t, Part round) {
    const Blocks blocks(round, room, topology.size);
    const bool root = rank == call.root;
    fold_round(steps, blocks, rank, root ? output(blocks.of(rank)) : staging(blocks.result(rank)));
    steps.meet();
    for (int d = 1; d < topology.size && root; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(output(blocks.of(owner)), staging_of(owner, blocks.result(owner)));
    }
  });
  return std::move(steps).build();
}

// A half holds a part for every rank.
Schedule staged_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const std::size_t slot = room.part_of_half(ranks, chunk);
  each_round(call.count, slot, [&](std::size_t turn, Part part) {
    const std::size_t half = turn % 2 * (room.elements / 2);
    const auto of = [&](std::size_t owner) { return shifted(part, owner * call.count); };
    for (std::size_t owner = 0; owner < ranks; ++owner)
      if (owner != static_cast<std::size_t>(rank)) steps.copy(staging({half + owner * slot, part.count}), input(of(owner)));
    steps.meet();
    steps.fold_staged(output(part), input(of(static_cast<std::size_t>(rank))), half + static_cast<std::size_t>(rank) * slot);
  });
  return std::move(steps).build();
}

Schedule staged_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  const auto of = [&](int owner, Part part) { return output(shifted(part, static_cast<std::size_t>(owner) * call.count)); };
  each_round(call.count, room.part_of_half(1, chunk), [&](std::size_t turn, Part part) {
    const Part half{turn % 2 * (room.elements / 2), part.count};
    steps.copy(staging(half), input(part));
    steps.meet();
    steps.copy(of(rank, part), input(part));
    for (int d = 1; d < topology.size; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(of(owner, part), staging_of(owner, half));
    }
  });
  return std::move(steps).build();
}

Schedule staged_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  each_round(call.count, room.part_of_half(1, chunk), [&](std::size_t turn, Part part) {
    const Part half{turn % 2 * (room.elements / 2), part.count};
    if (rank == call.root) steps.copy(staging(half), output(part));
    steps.meet();
    if (rank != call.root) steps.copy(output(part), staging_of(call.root, half));
  });
  return std::move(steps).build();
}

Schedule staged_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Room room(call, topology);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const std::size_t slot = room.part_of_half(ranks, chunk);
  each_round(call.count, slot, [&](std::size_t turn, Part part) {
    const std::size_t half = turn % 2 * (room.elements / 2);
    const auto of = [&](int peer) { return shifted(part, static_cast<std::size_t>(peer) * call.count); };
    for (int peer = 0; peer < topology.size; ++peer)
      if (peer != rank) steps.copy(staging({half + static_cast<std::size_t>(peer) * slot, part.count}), input(of(peer)));
    steps.meet();
    steps.copy(output(of(rank)), input(of(rank)));
    for (int d = 1; d < topology.size; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(output(of(owner)), staging_of(owner, {half + static_cast<std::size_t>(rank) * slot, part.count}));
    }
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
