#include "communicator/varying.h"

#include "base/kind.h"
#include "schedule/shape.h"

#include <utility>
#include <vector>

namespace anello {

std::shared_ptr<const schedule::Varying> varying_of(const anello_call_t& call, int rank, int size, bool in_place) {
  const auto ranks = std::size_t(size);
  const auto self = std::size_t(rank);
  const auto root = std::size_t(call.peer);
  const auto copied = [&](const std::size_t* array) { return std::vector<std::size_t>(array, array + ranks); };
  schedule::Varying parts;
  for (auto* const list : {&parts.sends, &parts.send_at, &parts.receives, &parts.receive_at}) list->assign(ranks, 0);
  switch (call.kind) {
    case ANELLO_ALLGATHERV:
      parts.receives = copied(call.recvcounts);
      parts.receive_at = copied(call.rdispls);
      parts.sends.assign(ranks, parts.receives[self]);
      break;
    case ANELLO_GATHERV:
      parts.sends[root] = call.count;
      if (self != root) break;
      parts.receives = copied(call.recvcounts);
      parts.receive_at = copied(call.rdispls);
      parts.sends[root] = parts.receives[root];
      break;
    case ANELLO_SCATTERV:
      parts.receives[root] = call.count;
      if (self != root) break;
      parts.sends = copied(call.sendcounts);
      parts.send_at = copied(call.sdispls);
      if (in_place) parts.sends[root] = 0;
      parts.receives[root] = parts.sends[root];
      break;
    case ANELLO_REDUCE_SCATTER: {
      parts.sends = copied(call.recvcounts);
      std::size_t next = 0;
      for (std::size_t p = 0; p < ranks; ++p) {
        parts.send_at[p] = next;
        next += parts.sends[p];
      }
      parts.receives[self] = parts.sends[self];
      break;
    }
    default:  // ANELLO_ALLTOALLV
      parts.receives = copied(call.recvcounts);
      parts.receive_at = copied(call.rdispls);
      parts.sends = in_place ? parts.receives : copied(call.sendcounts);
      parts.send_at = in_place ? parts.receive_at : copied(call.sdispls);
  }
  return schedule::measured(std::move(parts));
}

std::size_t counts_total(const anello_call_t& call, int size) {
  std::size_t total = 0;
  if (call.kind == ANELLO_ALLGATHERV || call.kind == ANELLO_REDUCE_SCATTER) {
    for (int p = 0; p < size; ++p) total += call.recvcounts[p];
  }
  return total;
}

std::uint32_t counts_digest(const anello_call_t& call, int size) {
  std::uint64_t digest = 0;
  if (call.kind == ANELLO_ALLGATHERV || call.kind == ANELLO_REDUCE_SCATTER) {
    for (int p = 0; p < size; ++p) {
      digest = (digest ^ call.recvcounts[p]) * 0x9e3779b97f4a7c15ull;
      digest ^= digest >> 32;
    }
  }
  return static_cast<std::uint32_t>(digest);
}

}  // namespace anello
