#include "schedule/totals.h"

#include "schedule/shape.h"

#include <algorithm>

namespace anello::schedule {
namespace {

void add_exchange(Totals& totals, const Call& call, int size, int rank, const Step& step) {
  totals.sent += step.from.count;
  const std::size_t into = step.into.count;
  if (into == 0) return;
  if (!reduces(call.collective)) {
    // For a result with a part for each rank, all parts except the own one; for a root, everything that it sends.
    const bool from_root = call.collective == Collective::scatter || call.collective == Collective::broadcast;
    totals.received += from_root ? (rank == call.root ? 0 : into) : into - into / static_cast<std::size_t>(size);
    return;
  }
  const int others = is_prefix(call.collective) ? rank : size - 1;  // whose operands are reduced
  const int reduces = call.collective == Collective::exscan ? std::max(0, rank - 1) : others;
  totals.received += into * static_cast<std::size_t>(others);
  totals.reduced += into * static_cast<std::size_t>(reduces);
}

// The number of other ranks whose buffers a slice is in.
std::size_t peers(const Slice& slice, int size, int rank) {
  if (slice.owner == kEach) return static_cast<std::size_t>(size - 1);
  return slice.owner == kOwn || slice.owner == rank ? 0 : 1;
}

void add_peers(Totals& totals, int size, int rank, const Step& step) {
  totals.sent += step.into.count * peers(step.into, size, rank);
  totals.received += step.from.count * peers(step.from, size, rank);
}

}  // namespace

Totals totals(const Call& call, int size, int rank, const Schedule& schedule) {
  Totals totals;
  for (const Step& step : schedule.steps) {
    switch (step.kind) {
      case Kind::barrier: break;
      case Kind::reduce_ranks:
        add_peers(totals, size, rank, step);
        totals.reduced += step.into.count * static_cast<std::size_t>(size - 1);
        break;
      case Kind::reduce_staged:
        totals.sent += twin_of(step).count;
        totals.copied += twin_of(step).count;
        totals.received += step.into.count * static_cast<std::size_t>(operands_of(step, size) - 1);
        totals.reduced += step.into.count * static_cast<std::size_t>(operands_of(step, size) - 1);
        break;
      case Kind::exchange: add_exchange(totals, call, size, rank, step); break;
      case Kind::send: break;  // below
      case Kind::recv: break;
      case Kind::recv_reduce:
      case Kind::reduce: totals.reduced += step.into.count; break;
      case Kind::copy:
        if (step.into.buffer == Buffer::staging) totals.sent += step.into.count;
        if (touches_peers(step)) {
          add_peers(totals, size, rank, step);
          break;
        }
        [[fallthrough]];
      case Kind::finish: totals.copied += step.into.count; break;
    }
  }
  for (const Lane& lane : schedule.lanes) {
    PeerTotals peer{lane.peer, 0, 0, lane.sends.size()};
    for (const std::uint32_t send : lane.sends) peer.sent += schedule.steps[send].from.count;
    for (const std::uint32_t receive : lane.receives) peer.received += schedule.steps[receive].into.count;
    totals.sent += peer.sent;
    totals.received += peer.received;
    totals.messages += peer.messages;
    totals.peers.push_back(peer);
  }
  return totals;
}

}  // namespace anello::schedule
