#include "communicator/in_place.h"

#include "base/dtype.h"
#include "base/kind.h"

#include <cstddef>

namespace anello {

bool is_in_place(const anello_call_t& call, int rank) {
  if (call.kind == ANELLO_BROADCAST) return true;
  if (kind_has_root(call.kind) && rank != call.peer) return false;
  const auto at = [&](const std::size_t* displs) { return displs != nullptr ? displs[rank] * dtype_bytes(call.dtype) : 0; };
  const std::size_t own = std::size_t(rank) * call.count * dtype_bytes(call.dtype);
  const auto* const input = static_cast<const std::byte*>(call.sendbuf);
  const auto* const output = static_cast<const std::byte*>(call.recvbuf);
  if (call.kind == ANELLO_SCATTER) {
    return call.recvbuf == ANELLO_IN_PLACE || (output != nullptr && output == input + own);
  }
  if (call.kind == ANELLO_SCATTERV) {
    return call.recvbuf == ANELLO_IN_PLACE || (output != nullptr && output == input + at(call.sdispls));
  }
  if (call.sendbuf == ANELLO_IN_PLACE) return true;
  if (call.kind == ANELLO_REDUCE_SCATTER_BLOCK || call.kind == ANELLO_REDUCE_SCATTER || input == nullptr) return false;
  if (call.kind == ANELLO_ALLGATHERV || call.kind == ANELLO_GATHERV) return input == output + at(call.rdispls);
  return input == output + (call.kind == ANELLO_ALLGATHER || call.kind == ANELLO_GATHER ? own : 0);
}

}  // namespace anello
