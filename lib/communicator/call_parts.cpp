#include "communicator/call_parts.h"

#include "base/kind.h"
#include "communicator/amounts.h"

#include <algorithm>
#include <numeric>

namespace anello {
namespace {

std::vector<CallPart> one(std::size_t at, std::size_t count) {
  if (count == 0) return {};
  return {{at, count}};
}

std::vector<CallPart> each(const std::size_t* counts, const std::size_t* displs, int size) {
  std::vector<CallPart> parts;
  for (int p = 0; p < size; ++p) {
    if (counts[p] > 0) parts.push_back({displs[p], counts[p]});
  }
  return parts;
}

// In place, the rank's input lies among the parts of the output.
std::vector<CallPart> own_input(const anello_call_t& call, int rank, int size) {
  const auto self = std::size_t(rank);
  switch (call.kind) {
    case ANELLO_ALLGATHER:
    case ANELLO_GATHER: return one(self * call.count, call.count);
    case ANELLO_ALLGATHERV:
    case ANELLO_GATHERV: return one(call.rdispls[rank], call.recvcounts[rank]);
    case ANELLO_ALLTOALLV: return each(call.recvcounts, call.rdispls, size);
    case ANELLO_SCATTERV: return each(call.sendcounts, call.sdispls, size);
    case ANELLO_BROADCAST: return one(0, rank == call.peer ? call.count : 0);
    default: return one(0, amounts_of(call, rank, size).in);
  }
}

}  // namespace

CallParts parts_of(const anello_call_t& call, int rank, int size, InPlace place) {
  const Amounts amounts = amounts_of(call, rank, size);
  const bool root = rank == call.peer;
  CallParts parts;
  if (place == InPlace::yes) {
    parts.reads = own_input(call, rank, size);
  } else if (call.kind == ANELLO_ALLTOALLV || (call.kind == ANELLO_SCATTERV && root)) {
    parts.reads = each(call.sendcounts, call.sdispls, size);
  } else {
    parts.reads = one(0, amounts.in);
  }
  if (call.kind == ANELLO_ALLGATHERV || call.kind == ANELLO_ALLTOALLV || (call.kind == ANELLO_GATHERV && root)) {
    parts.writes = each(call.recvcounts, call.rdispls, size);
  } else if (place == InPlace::own_part) {
    const std::size_t* const counts = call.recvcounts;
    const std::size_t below = call.kind == ANELLO_REDUCE_SCATTER
                                  ? std::accumulate(counts, counts + rank, std::size_t{0})
                                  : std::size_t(rank) * call.count;
    parts.writes = one(below, amounts.out);
  } else if (call.kind == ANELLO_BROADCAST) {
    parts.writes = one(0, root ? 0 : call.count);
  } else if (place == InPlace::yes && (call.kind == ANELLO_SCATTER || call.kind == ANELLO_SCATTERV)) {
    parts.writes = {};  // the root's part stays where it is
  } else {
    parts.writes = one(0, amounts.out);
  }
  return parts;
}

std::size_t extent_of(const std::vector<CallPart>& parts) {
  std::size_t end = 0;
  for (const CallPart& part : parts) end = std::max(end, part.at + part.count);
  return end;
}

}  // namespace anello
