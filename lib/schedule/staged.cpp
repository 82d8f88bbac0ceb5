// Schedules over staging memory, for buffers that peers cannot reach: a rank copies the data that others need to
// staging memory, from which they load it, round by round. There is one barrier per round, plus one in total if results
// go back to all ranks, or one per round if they go to one rank.
#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>
#include <vector>

namespace anello::schedule {
namespace {

constexpr std::size_t kAlignBytes = 64;

// The layout of a rank's staging memory: slots that the rounds use in turn, each with `parts` parts that others load.
// Rotation matters: memory that a peer has loaded recently is in its caches, and a new store to it waits for each line.
class Slots {
 public:
  // wish: elements of a round. most: slots.
  Slots(const Call& call, const Topology& topology, std::size_t parts, std::size_t wish, std::size_t most = SIZE_MAX)
      : line_(std::max<std::size_t>(kAlignBytes / call.element_bytes, 1)) {
    const std::size_t elements = topology.staging_bytes / call.element_bytes;
    // There are at least two slots, which one barrier per round separates.
    round_ = std::max<std::size_t>(std::min({elements / 2 / parts, wish, call.count}), 1);
    if (lines(round_) * parts * 2 <= elements)
      round_ = lines(round_);
    else if (round_ > line_)
      round_ -= round_ % line_;
    slot_ = round_ * parts;
    slots_ = std::min({elements / slot_, (call.count + round_ - 1) / round_, most});
  }
  // In total.
  std::size_t elements() const { return slots_ * slot_; }
  std::size_t line() const { return line_; }
  std::size_t lines(std::size_t count) const { return (count + line_ - 1) / line_ * line_; }
  std::size_t round() const { return round_; }
  // The place of a part in a round's slot: elements from there on.
  std::size_t at(std::size_t turn, std::size_t part = 0) const { return turn % slots_ * slot_ + part * round_; }

 private:
  std::size_t line_, round_, slot_, slots_;
};

// Calls visit(turn, part) for the rounds of a vector of count elements, one after the other.
template <class Visit>
void each_round(std::size_t count, const Slots& slots, Visit&& visit) {
  std::size_t turn = 0;
  for (std::size_t at = 0; at < count; at += slots.round())
    visit(turn++, Part{at, std::min(slots.round(), count - at)});
}

Part shifted(Part part, std::size_t by) { return {part.offset + by, part.count}; }

// A round of a vector of which every rank reduces its block. Its slot has two parts: the operands that others reduce,
// and a result.
struct Blocks {
  Blocks(Part round, const Slots& slots, std::size_t turn, int size)
      : whole(round), slots_(slots), turn_(turn), size_(size) {}
  Part of(int rank) const { return shifted(aligned_block(whole.count, size_, slots_.line(), rank), whole.offset); }
  Part staged(Part part) const { return {slots_.at(turn_) + part.offset - whole.offset, part.count}; }
  Part result(int rank) const { return {slots_.at(turn_, 1), of(rank).count}; }
  const Part whole;

 private:
  const Slots& slots_;
  const std::size_t turn_;
  const int size_;
};

// Copies all blocks of the round except the own one to the staging memory from which their owners reduce them.
void stage_round(Builder& steps, const Blocks& blocks, int rank) {
  const Part own = blocks.of(rank);
  const Part below{blocks.whole.offset, own.offset - blocks.whole.offset};
  const Part above{own.offset + own.count, below.offset + blocks.whole.count - own.offset - own.count};
  for (const Part& part : {below, above}) steps.copy(staging(blocks.staged(part)), input(part));
}

// Stores the result to `into`, and to staging from `shown` on, from which others load it.
void reduce_round(Builder& steps, const Blocks& blocks, int rank, Slice into, std::size_t shown = kNotShown) {
  const Part own = blocks.of(rank);
  steps.reduce_staged(into, input(own), blocks.staged(own).offset, shown);
}

// Loads all other owners' results, beginning with the next rank: otherwise all would load the same block at once.
void take_results(Builder& steps, const Blocks& blocks, int rank, int size) {
  for (int d = 1; d < size; ++d) {
    const int owner = wrap(rank + d, size);
    steps.copy(output(blocks.of(owner)), staging_of(owner, blocks.result(owner)));
  }
}

}  // namespace

namespace {

// Between two ranks, a result overwrites the operand in staging memory: the processor that reduces has those lines, and
// the processor that stores to them in the next call had them last.
Schedule there_and_back(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const int peer = 1 - rank;
  const Slots slots(call, topology, 1, chunk);
  const std::size_t rounds = (call.count + slots.round() - 1) / slots.round();
  // The part of a round that the other rank reduces. One is in use while the next is ready.
  const std::size_t slot = std::min(slots.lines(aligned_block(slots.round(), 2, slots.line(), 0).count), slots.round());
  steps.stages(std::min<std::size_t>(rounds, 2) * slot, true);
  const auto block = [&](std::size_t turn, int owner) {
    const std::size_t at = turn * slots.round();
    return shifted(aligned_block(std::min(slots.round(), call.count - at), 2, slots.line(), owner), at);
  };
  const auto place = [&](std::size_t turn, const Part& of) { return Part{turn % 2 * slot, of.count}; };
  const auto stage = [&](std::size_t turn) {
    steps.copy(staging(place(turn, block(turn, peer))), input(block(turn, peer)));
  };
  for (std::size_t turn = 0; turn < rounds; ++turn) {
    if (turn == 0) {
      stage(turn);
      steps.barrier();
    }
    const Part own = block(turn, rank);
    const Part its = block(turn, peer);
    const std::size_t at = place(turn, own).offset;
    steps.reduce_staged(output(own), input(own), at, at, peer);
    if (turn + 1 < rounds) stage(turn + 1);
    steps.barrier();
    steps.copy(output(its), staging(place(turn, its)));
  }
  return std::move(steps).build();
}

}  // namespace

Schedule staged_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  if (topology.size == 2) return there_and_back(call, topology, rank, chunk);
  Builder steps("staged", call, topology, rank);
  const Slots slots(call, topology, 2, chunk);
  steps.stages(slots.elements());
  std::vector<Blocks> rounds;
  each_round(call.count, slots,
             [&](std::size_t turn, Part round) { rounds.emplace_back(round, slots, turn, topology.size); });
  // When a round's results are announced, the next round has already been staged: one barrier serves both.
  for (std::size_t k = 0; k < rounds.size(); ++k) {
    if (k == 0) {
      stage_round(steps, rounds[k], rank);
      steps.barrier();
    }
    reduce_round(steps, rounds[k], rank, output(rounds[k].of(rank)), rounds[k].result(rank).offset);
    if (k + 1 < rounds.size()) stage_round(steps, rounds[k + 1], rank);
    steps.barrier();
    take_results(steps, rounds[k], rank, topology.size);
  }
  return std::move(steps).build();
}

namespace {

// All other ranks stage and the root reduces: one barrier per round, and the others stage the next round meanwhile. The
// total number of bytes is the same as if every rank reduced its block, but the root moves more if there are more than
// two ranks and each has its own processor.
Schedule reduce_at_root(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Slots slots(call, topology, 1, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part part) {
    const Part slot{slots.at(turn), part.count};
    if (rank != call.root) steps.copy(staging(slot), input(part));
    steps.barrier();
    if (rank == call.root) steps.reduce_staged(output(part), input(part), slot.offset);
  });
  return std::move(steps).build();
}

}  // namespace

Schedule staged_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  if (topology.size == 2 || topology.oversubscribed) return reduce_at_root(call, topology, rank, chunk);
  Builder steps("staged", call, topology, rank);
  const Slots slots(call, topology, 2, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part round) {
    const Blocks blocks(round, slots, turn, topology.size);
    const bool root = rank == call.root;
    stage_round(steps, blocks, rank);
    steps.barrier();
    reduce_round(steps, blocks, rank, root ? output(blocks.of(rank)) : staging(blocks.result(rank)));
    steps.barrier();
    if (root) take_results(steps, blocks, rank, topology.size);
  });
  return std::move(steps).build();
}

// A slot holds a part for every rank.
Schedule staged_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const Slots slots(call, topology, ranks, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part part) {
    const auto of = [&](std::size_t owner) { return shifted(part, owner * call.count); };
    for (std::size_t owner = 0; owner < ranks; ++owner)
      if (owner != static_cast<std::size_t>(rank))
        steps.copy(staging({slots.at(turn, owner), part.count}), input(of(owner)));
    steps.barrier();
    steps.reduce_staged(output(part), input(of(static_cast<std::size_t>(rank))),
                        slots.at(turn, static_cast<std::size_t>(rank)));
  });
  return std::move(steps).build();
}

namespace {

// Between two ranks, each of which sends `given(part)` and receives `taken(part)`: rounds use either rank's memory in
// turn, so each rank stores where it has loaded last. Those lines are already in its caches, and stores do not wait.
// After an even number of rounds each rank has its own memory back.
template <class Given, class Taken, class Keep>
Schedule to_and_fro(const Call& call, const Topology& topology, int rank, std::size_t chunk, Given&& given,
                    Taken&& taken, Keep&& keep) {
  Builder steps("staged", call, topology, rank);
  const int peer = 1 - rank;
  const std::size_t pairs = (call.count + 2 * chunk - 1) / (2 * chunk);
  const Slots slots(call, topology, 1, (call.count + 2 * pairs - 1) / (2 * pairs), 1);
  steps.stages(slots.elements(), true);
  const std::size_t rounds = (call.count + slots.round() - 1) / slots.round();
  for (std::size_t turn = 0; turn < rounds + rounds % 2; ++turn) {
    const std::size_t at = std::min(turn * slots.round(), call.count);
    const Part part{at, std::min(slots.round(), call.count - at)};
    const Part place{0, part.count};
    const bool own = turn % 2 == 0;
    steps.copy(own ? staging(place) : staging_of(peer, place), given(part));
    steps.barrier();
    keep(steps, part);
    steps.copy(taken(part), own ? staging_of(peer, place) : staging(place));
  }
  return std::move(steps).build();
}

}  // namespace

Schedule staged_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const auto of = [&](int owner, Part part) {
    return output(shifted(part, static_cast<std::size_t>(owner) * call.count));
  };
  if (topology.size == 2) {
    return to_and_fro(
        call, topology, rank, chunk, [&](Part part) { return input(part); },
        [&](Part part) { return of(1 - rank, part); },
        [&](Builder& steps, Part part) { steps.copy(of(rank, part), input(part)); });
  }
  Builder steps("staged", call, topology, rank);
  const Slots slots(call, topology, 1, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part part) {
    const Part slot{slots.at(turn), part.count};
    steps.copy(staging(slot), input(part));
    steps.barrier();
    steps.copy(of(rank, part), input(part));
    for (int d = 1; d < topology.size; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(of(owner, part), staging_of(owner, slot));
    }
  });
  return std::move(steps).build();
}

Schedule staged_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("staged", call, topology, rank);
  const Slots slots(call, topology, 1, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part part) {
    const Part slot{slots.at(turn), part.count};
    if (rank == call.root) steps.copy(staging(slot), output(part));
    steps.barrier();
    if (rank != call.root) steps.copy(output(part), staging_of(call.root, slot));
  });
  return std::move(steps).build();
}

Schedule staged_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  if (topology.size == 2) {
    const auto of = [&](int owner, Part part) { return shifted(part, static_cast<std::size_t>(owner) * call.count); };
    return to_and_fro(
        call, topology, rank, chunk, [&](Part part) { return input(of(1 - rank, part)); },
        [&](Part part) { return output(of(1 - rank, part)); },
        [&](Builder& steps, Part part) { steps.copy(output(of(rank, part)), input(of(rank, part))); });
  }
  Builder steps("staged", call, topology, rank);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const Slots slots(call, topology, ranks, chunk);
  steps.stages(slots.elements());
  each_round(call.count, slots, [&](std::size_t turn, Part part) {
    const auto of = [&](int peer) { return shifted(part, static_cast<std::size_t>(peer) * call.count); };
    for (int peer = 0; peer < topology.size; ++peer)
      if (peer != rank)
        steps.copy(staging({slots.at(turn, static_cast<std::size_t>(peer)), part.count}), input(of(peer)));
    steps.barrier();
    steps.copy(output(of(rank)), input(of(rank)));
    for (int d = 1; d < topology.size; ++d) {
      const int owner = wrap(rank + d, topology.size);
      steps.copy(output(of(owner)), staging_of(owner, {slots.at(turn, static_cast<std::size_t>(rank)), part.count}));
    }
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
