#include "communicator/amounts.h"

#include "communicator/varying.h"

namespace anello {

Amounts amounts_of(const anello_call_t& call, int rank, int size) {
  const std::size_t part = call.count;
  const std::size_t all = part * std::size_t(size);
  const bool root = rank == call.peer;
  switch (call.kind) {
    case ANELLO_ALLGATHER: return {part, all};
    case ANELLO_REDUCE_SCATTER_BLOCK: return {all, part};
    case ANELLO_REDUCE_SCATTER: return {counts_total(call, size), call.recvcounts[rank]};
    case ANELLO_REDUCE: return {part, root ? part : 0};
    case ANELLO_GATHER: return {part, root ? all : 0};
    case ANELLO_SCATTER: return {root ? all : 0, part};
    case ANELLO_ALLTOALL: return {all, all};
    case ANELLO_EXSCAN: return {part, rank > 0 ? part : 0};
    default: return {part, part};
  }
}

}  // namespace anello
