// Schedules over peers' memory: every rank loads its operands directly from the peers' buffers, and no messages are
// sent. All ranks have entered the call before any step runs, so inputs are ready. Each rank leaves after a barrier,
// when no peer accesses its buffers any more.
#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>

namespace anello::schedule {
namespace {

// Blocks begin at cache lines if the buffers do: no two ranks write one line, and vector loads stay aligned.
constexpr std::size_t kAlignBytes = 64;

Part own_block(const Call& call, int size, int rank) {
  return aligned_block(call.count, size, std::max<std::size_t>(kAlignBytes / call.element_bytes, 1), rank);
}

// P parts of call.count elements each.
Part part_of(const Call& call, int rank) { return {static_cast<std::size_t>(rank) * call.count, call.count}; }

// A part of every vector. Its results replace inputs on ranks that are in place. Such a rank sets a chunk aside, waits
// at a barrier until all ranks have loaded their share of it, and copies it into place. Other ranks load everything at
// once, and have equally many barriers.
template <class Load, class Place>
void in_rounds(Builder& steps, std::size_t count, std::size_t chunk, bool aside, Load&& load, Place&& place) {
  const Split split(count, 1, chunk);
  if (!aside) load(Part{0, count});
  for (std::size_t c = 0; c < split.chunks(); ++c) {
    if (aside) load(split.chunk(0, c));
    steps.barrier();
    if (aside) place(split.chunk(0, c));
  }
}

}  // namespace

// This moves 2 P times the vector's bytes, the fewest possible: each element is loaded from P inputs and stored into P
// outputs while it is in a register.
Schedule direct_allreduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, true);
  const Part own = own_block(call, topology.size, rank);
  steps.reduce_ranks(output_of(kEach, own), input_of(kEach, own));
  steps.barrier();
  return std::move(steps).build();
}

Schedule attach_allreduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("attach", call, topology, rank);
  steps.touches_peers(true, true);
  const Part own = own_block(call, topology.size, rank);
  steps.reduce_ranks(output(own), input_of(kEach, own));
  steps.barrier();
  // It begins at the next rank: otherwise all would load the same block at once.
  for (int d = 1; d < topology.size; ++d) {
    const int owner = wrap(rank + d, topology.size);
    const Part block = own_block(call, topology.size, owner);
    steps.copy(output(block), output_of(owner, block));
  }
  steps.barrier();
  return std::move(steps).build();
}

Schedule direct_reduce(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, true);
  const Part own = own_block(call, topology.size, rank);
  steps.reduce_ranks(output_of(call.root, own), input_of(kEach, own));
  steps.barrier();
  return std::move(steps).build();
}

Schedule direct_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, false);
  const std::size_t first = part_of(call, rank).offset;
  // In place, the result replaces this rank's block, which only this rank reduces, or block 0 of the inputs, which rank
  // 0 reduces, perhaps later.
  const bool aside = call.in_place && !call.own_part && rank != 0;
  in_rounds(
      steps, call.count, chunk, aside,
      [&](Part part) {
    const Slice reduced = aside ? Slice{Buffer::scratch, 0, part.count} : output(part);
    steps.reduce_ranks(reduced, input_of(kEach, {first + part.offset, part.count}));
      },
      [&](Part part) {
    steps.copy(output(part), {Buffer::scratch, 0, part.count});
  });
  return std::move(steps).build();
}

Schedule direct_allgather(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, false);
  for (int d = 1; d < topology.size; ++d) {
    const int peer = wrap(rank + d, topology.size);
    steps.copy(output(part_of(call, peer)), input_of(peer, {0, call.count}));
  }
  steps.barrier();
  steps.copy(output(part_of(call, rank)), input({0, call.count}));
  return std::move(steps).build();
}

Schedule direct_broadcast(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(false, true);
  const Part all{0, call.count};
  steps.copy(output(all), output_of(call.root, all));  // the root's part would be copied to itself
  steps.barrier();
  return std::move(steps).build();
}

Schedule direct_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, false);
  // In place, arriving parts replace parts that other ranks still need.
  const auto there = [&](int d, Part part) {
    return output({part_of(call, wrap(rank + d, size)).offset + part.offset, part.count});
  };
  const auto set_aside = [&](int d, Part part) {
    return Slice{Buffer::scratch, static_cast<std::size_t>(d - 1) * part.count, part.count};
  };
  in_rounds(
      steps, call.count, chunk, call.in_place,
      [&](Part part) {
    for (int d = 1; d < size; ++d)
      steps.copy(call.in_place ? set_aside(d, part) : there(d, part),
                 input_of(wrap(rank + d, size), {part_of(call, rank).offset + part.offset, part.count}));
      },
      [&](Part part) {
    for (int d = 1; d < size; ++d) steps.copy(there(d, part), set_aside(d, part));
  });
  steps.copy(output(part_of(call, rank)), input(part_of(call, rank)));
  return std::move(steps).build();
}

}  // namespace anello::schedule
