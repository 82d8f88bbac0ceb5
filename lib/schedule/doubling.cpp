#include "schedule/doubling.h"

#include "schedule/algorithms.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace anello::schedule {
namespace {

// The power of two that takes part in the rounds, and its members: among the first 2 * spare members, each odd one
// represents itself and the even member below it.
struct Rounds {
  explicit Rounds(int size)
      : seats(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), spare(size - seats) {}

  int seat(int member) const { return member < 2 * spare ? member / 2 : member - spare; }
  int member(int seat) const { return seat < spare ? 2 * seat + 1 : seat + spare; }

  int seats;
  int spare;
};

}  // namespace

void double_up(Builder& steps, const Call& call, const Split& split, const std::vector<int>& members, int rank,
               Buffer value) {
  const Rounds rounds(static_cast<int>(members.size()));
  const auto own = static_cast<int>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
  const auto of = [&](int member) { return members[static_cast<std::size_t>(member)]; };
  const auto in = [](Buffer buffer, Part part) { return Slice{buffer, part.offset, part.count}; };
  const auto each_chunk = [&](auto&& add) {
    for (std::size_t c = 0; c < split.chunks(); ++c) add(split.chunk(0, c));
  };
  const bool paired = own < 2 * rounds.spare;
  if (paired && own % 2 == 0) {
    each_chunk([&](Part part) { steps.send(of(own + 1), in(value, part)); });
    each_chunk([&](Part part) { steps.recv(of(own + 1), output(part)); });
    return;
  }

  // A round may not overwrite the data that it sends: otherwise both partners would wait for the other to receive it
  // first. So values alternate between output and scratch.
  if (paired) {
    each_chunk([&](Part part) { steps.recv_reduce(of(own - 1), output(part), in(value, part), Order::reversed); });
    value = Buffer::output;
  }
  const bool in_output = value == Buffer::output || call.in_place;
  const bool odd_rounds = std::countr_zero(static_cast<unsigned>(rounds.seats)) % 2 == 1;
  Buffer next = !in_output && odd_rounds ? Buffer::output : Buffer::scratch;
  const int self = rounds.seat(own);
  for (int distance = 1; distance < rounds.seats; distance *= 2) {
    const int partner = self ^ distance;
    const int peer = of(rounds.member(partner));
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
    if (paired) steps.send(of(own - 1), output(part));
  });
}

Schedule doubling_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("doubling", call, topology, rank);
  std::vector<int> all(static_cast<std::size_t>(topology.size));
  std::iota(all.begin(), all.end(), 0);
  double_up(steps, call, Split(call.count, 1, chunk), all, rank, Buffer::input);
  return std::move(steps).build();
}

}  // namespace anello::schedule
