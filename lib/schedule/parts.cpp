#include "schedule/parts.h"

#include "schedule/shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace anello::schedule {
namespace {

Counts one_after_the_other(const Counts& counts) {
  Counts at(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), at.begin(), std::size_t{0});
  return at;
}

}  // namespace

std::size_t known_total(Collective collective, const Counts& counts) {
  return is_between_pairs(collective) ? 0 : std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

Call call_of(const Call& call, const Counts& counts, int rank) {
  if (counts.empty()) return call;
  const auto self = static_cast<std::size_t>(rank);
  const auto root = static_cast<std::size_t>(call.root);
  const Counts none(counts.size());
  Varying parts{none, none, none, none, 0, 0};
  switch (call.collective) {
    case Collective::allgatherv:
      parts.sends.assign(counts.size(), counts[self]);
      parts.receives = counts;
      break;
    case Collective::gatherv:
      parts.sends[root] = counts[self];
      if (self == root) parts.receives = counts;
      break;
    case Collective::scatterv:
      if (self == root) parts.sends = counts;
      parts.receives[root] = counts[self];
      if (call.in_place && self == root) parts.sends[root] = parts.receives[root] = 0;
      break;
    case Collective::reduce_scatterv:
      parts.sends = counts;
      parts.receives[self] = counts[self];
      break;
    default:  // alltoallv
      parts.sends.assign(counts.size(), counts[self]);
      parts.receives = counts;
  }
  const bool gives_one_part = call.collective == Collective::allgatherv || call.collective == Collective::gatherv;
  const bool gets_one_part = call.collective == Collective::scatterv || call.collective == Collective::reduce_scatterv;
  if (!gives_one_part) parts.send_at = one_after_the_other(parts.sends);
  if (!gets_one_part) parts.receive_at = one_after_the_other(parts.receives);
  Call own = call;
  own.varying = measured(std::move(parts));
  return own;
}

std::vector<Call> calls_of(const Call& call, const Counts& counts) {
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < std::max<std::size_t>(counts.size(), 1); ++rank) {
    calls.push_back(call_of(call, counts, static_cast<int>(rank)));
  }
  return calls;
}

}  // namespace anello::schedule
