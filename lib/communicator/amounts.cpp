#include "communicator/amounts.h"

#include <numeric>

namespace anello {

Amounts amounts_of(const anello_call_t& call, int rank, int size) {
  const std::size_t part = call.count;
  const std::size_t all = part * std::size_t(size);
  const bool root = rank == call.peer;
  const auto sum = [&](const std::size_t* counts) {
    return counts == nullptr ? 0 : std::accumulate(counts, counts + size, std::size_t{0});
  };
  switch (call.kind) {
    case ANELLO_ALLGATHER: return {part, all};
    case ANELLO_REDUCE_SCATTER_BLOCK: return {all, part};
    case ANELLO_REDUCE: return {part, root ? part : 0};
    case ANELLO_GATHER: return {part, root ? all : 0};
    case ANELLO_SCATTER: return {root ? all : 0, part};
    case ANELLO_ALLTOALL: return {all, all};
    case ANELLO_EXSCAN: return {part, rank > 0 ? part : 0};
    case ANELLO_ALLGATHERV: return {part, sum(call.recvcounts)};
    case ANELLO_GATHERV: return {part, root ? sum(call.recvcounts) : 0};
    case ANELLO_SCATTERV: return {root ? sum(call.sendcounts) : 0, part};
    case ANELLO_REDUCE_SCATTER: return {sum(call.recvcounts), call.recvcounts[rank]};
    case ANELLO_ALLTOALLV: return {call.sendbuf == ANELLO_IN_PLACE ? 0 : sum(call.sendcounts), sum(call.recvcounts)};
    case ANELLO_SEND: return {part, 0};
    case ANELLO_RECV: return {0, part};
    case ANELLO_BARRIER:
    case ANELLO_PROBE: return {0, 0};
    default: return {part, part};
  }
}

}  // namespace anello
