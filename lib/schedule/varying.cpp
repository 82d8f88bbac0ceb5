#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <algorithm>

namespace anello::schedule {
namespace {

// The number of parts that are set aside at a time if the result replaces the input; see alltoall.cpp.
constexpr std::size_t kSlots = 4;

// Whether this rank has a part with that rank: a call with a root is between the root and each other rank.
bool meets(const Call& call, int sender, int receiver) {
  switch (call.collective) {
    case Collective::gatherv: return receiver == call.root;
    case Collective::scatterv: return sender == call.root;
    default: return true;
  }
}

// An empty part may have any displacement.
Part part(std::size_t at, std::size_t count) { return {count > 0 ? at : 0, count}; }

}  // namespace

// One message from each rank to each rank for which it has a part, in one piece: the executor cuts it while sending.
Schedule direct_varying(const Call& call, const Topology& topology, int rank, std::size_t) {
  const Varying& parts = *call.varying;
  const int size = topology.size;
  Builder steps("direct", call, topology, rank);
  const bool aside = call.in_place && call.collective == Collective::alltoallv;
  const std::size_t longest = *std::max_element(parts.sends.begin(), parts.sends.end());
  std::size_t turn = 0;
  const auto going = [&](int peer) {
    const auto p = static_cast<std::size_t>(peer);
    const Slice own = input(part(parts.send_at[p], parts.sends[p]));
    if (!aside) return own;
    const Slice slot{Buffer::scratch, turn++ % kSlots * longest, own.count};
    steps.copy(slot, own);
    return slot;
  };
  const auto change = [&](int to, Slice out, int from) {
    const auto f = static_cast<std::size_t>(from);
    if (meets(call, rank, to)) steps.send(to, out);
    if (meets(call, from, rank)) steps.recv(from, output(part(parts.receive_at[f], parts.receives[f])));
  };
  for (int d = 1; 2 * d <= size; ++d) {
    const int above = wrap(rank + d, size);
    const int below = wrap(rank - d, size);
    const Slice up = going(above);
    if (above == below) {
      change(above, up, below);
      continue;
    }
    const Slice down = going(below);
    change(above, up, below);
    change(below, down, above);
  }
  const auto self = static_cast<std::size_t>(rank);
  steps.copy(output(part(parts.receive_at[self], parts.receives[self])),
             input(part(parts.send_at[self], parts.sends[self])));
  return std::move(steps).build();
}

}  // namespace anello::schedule
