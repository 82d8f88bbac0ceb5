// Schedules over peers' memory: every rank loads what it needs from where it lies, and no message is sent. All ranks
// have entered the call before any step runs, so inputs are there; each leaves behind a barrier, when nobody touches
// its buffers any more.
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

// A part of every vector, whose results take the place of inputs where ranks are in place: those set a chunk aside,
// barrier when all have loaded what they need of it, and put it in its place. A rank that need not set aside loads all
// at once, and has as many barriers.
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

// 2 P of the vector's bytes move, the fewest: each element is loaded from P inputs and stored into P outputs while it
// is in a register.
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
  // From the next rank on: else all would load the same block at once.
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
  // In place the result takes the place of this rank's block, which it alone reduces, or of block 0 of the inputs,
  // which rank 0 reduces, perhaps later.
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
  steps.copy(output(all), output_of(call.root, all));  // the root's: onto itself
  steps.barrier();
  return std::move(steps).build();
}

Schedule direct_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  Builder steps("direct", call, topology, rank);
  steps.touches_peers(true, false);
  // In place the parts that arrive take the place of those that others still need.
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
