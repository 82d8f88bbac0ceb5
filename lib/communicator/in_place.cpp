#include "communicator/in_place.h"

#include "base/dtype.h"
#include "base/kind.h"

#include <cstddef>

namespace anello {
namespace {

// Elements before this rank's part of a reduce_scatter's input.
std::size_t parts_below(const anello_call_t& call, int rank) {
  if (call.kind == ANELLO_REDUCE_SCATTER_BLOCK) return std::size_t(rank) * call.count;
  std::size_t below = 0;
  for (int p = 0; p < rank && call.recvcounts != nullptr; ++p) below += call.recvcounts[p];
  return below;
}

}  // namespace

InPlace in_place(const anello_call_t& call, int rank) {
  const auto yes_if = [](bool condition) { return condition ? InPlace::yes : InPlace::no; };
  if (call.kind == ANELLO_BROADCAST) return InPlace::yes;
  if (kind_has_root(call.kind) && rank != call.peer) return InPlace::no;
  const std::size_t element = dtype_bytes(call.dtype);
  const auto at = [&](const std::size_t* displs) { return displs != nullptr ? displs[rank] * element : 0; };
  const std::size_t own = std::size_t(rank) * call.count * element;
  const auto* const input = static_cast<const std::byte*>(call.sendbuf);
  const auto* const output = static_cast<const std::byte*>(call.recvbuf);
  if (call.kind == ANELLO_SCATTER || call.kind == ANELLO_SCATTERV) {
    const std::size_t part = call.kind == ANELLO_SCATTER ? own : at(call.sdispls);
    return yes_if(call.recvbuf == ANELLO_IN_PLACE || (output != nullptr && output == input + part));
  }
  if (call.sendbuf == ANELLO_IN_PLACE) return InPlace::yes;
  if (input == nullptr) return InPlace::no;
  if (call.kind == ANELLO_REDUCE_SCATTER_BLOCK || call.kind == ANELLO_REDUCE_SCATTER) {
    return output == input + parts_below(call, rank) * element ? InPlace::own_part : InPlace::no;
  }
  if (call.kind == ANELLO_ALLGATHERV || call.kind == ANELLO_GATHERV) return yes_if(input == output + at(call.rdispls));
  return yes_if(input == output + (call.kind == ANELLO_ALLGATHER || call.kind == ANELLO_GATHER ? own : 0));
}

}  // namespace anello
