#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <bit>

namespace anello::schedule {
namespace {

// The power of two that takes part in the rounds, and who it is: of the first 2 * spare ranks the odd ones stand for
// themselves and the even rank below them.
struct Rounds {
  explicit Rounds(int size)
      : members(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), spare(size - members) {}

  int member(int rank) const { return rank < 2 * spare ? rank / 2 : rank - spare; }
  int rank(int member) const { return member < spare ? 2 * member + 1 : member + spare; }

  int members;
  int spare;
};

}  // namespace

// Round k: whole vectors between members 2^k apart. Both partners put the lower one's operand on the left, so both get
// the same bits, and the operands of a sum are always neighbours in rank.
Schedule doubling_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Rounds rounds(topology.size);
  const Split split(call.count, 1, chunk);
  Builder steps("doubling", call, topology, rank);

  const bool paired = rank < 2 * rounds.spare;
  const auto in = [](Buffer buffer, Part part) { return Slice{buffer, part.offset, part.count}; };
  const auto each_chunk = [&](auto&& add) {
    for (std::size_t c = 0; c < split.chunks(); ++c) add(split.chunk(0, c));
  };
  if (paired && rank % 2 == 0) {
    each_chunk([&](Part part) { steps.send(rank + 1, input(part)); });
    each_chunk([&](Part part) { steps.recv(rank + 1, output(part)); });
    return std::move(steps).build();
  }

  // A round may not overwrite what it sends: the partner does likewise, and both would wait for the other to take it
  // first. So values alternate between output and scratch.
  Buffer value = Buffer::input;
  if (paired) {
    each_chunk([&](Part part) { steps.recv_reduce(rank - 1, output(part), input(part), Order::reversed); });
    value = Buffer::output;
  }
  const bool in_output = paired || call.in_place;
  const bool odd_rounds = std::countr_zero(static_cast<unsigned>(rounds.members)) % 2 == 1;
  Buffer next = !in_output && odd_rounds ? Buffer::output : Buffer::scratch;
  const int self = rounds.member(rank);
  for (int distance = 1; distance < rounds.members; distance *= 2) {
    const int partner = self ^ distance;
    const int peer = rounds.rank(partner);
    const Order order = partner < self ? Order::reversed : Order::plain;
    each_chunk([&](Part part) {
      steps.send(peer, in(value, part));
      steps.recv_reduce(peer, in(next, part), in(value, part), order);
    });
    value = next;
    next = value == Buffer::output ? Buffer::scratch : Buffer::output;
  }
  each_chunk([&](Part part) {
    if (call.finish)
      steps.finish(output(part), in(value, part));
    else
      steps.copy(output(part), in(value, part));
    if (paired) steps.send(rank - 1, output(part));
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
