#include "api/buffer_sizes.h"

#include "base/dtype.h"
#include "communicator/amounts.h"

#include <numeric>

namespace anello::api {

Sizes buffer_sizes(const anello_call_t& call, int rank, int size) {
  const std::size_t element = dtype_bytes(call.dtype);
  const std::size_t part = call.count * element;
  const bool root = rank == call.peer;
  const auto sum = [&](const std::size_t* counts) {
    return counts == nullptr ? 0 : element * std::accumulate(counts, counts + size, std::size_t(0));
  };
  switch (call.kind) {
    case ANELLO_ALLGATHERV: return {part, sum(call.recvcounts)};
    case ANELLO_GATHERV: return {part, root ? sum(call.recvcounts) : 0};
    case ANELLO_SCATTERV: return {root ? sum(call.sendcounts) : 0, part};
    case ANELLO_ALLTOALLV: return {call.sendbuf == ANELLO_IN_PLACE ? 0 : sum(call.sendcounts), sum(call.recvcounts)};
    case ANELLO_SEND: return {part, 0};
    case ANELLO_RECV: return {0, part};
    case ANELLO_BARRIER:
    case ANELLO_PROBE: return {0, 0};
    default: {
      const Amounts amounts = amounts_of(call, rank, size);
      return {amounts.in * element, amounts.out * element};
    }
  }
}

}  // namespace anello::api
