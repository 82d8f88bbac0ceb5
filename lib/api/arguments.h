#pragma once
// Checks of a call's arguments that need no other rank.
#include "base/dtype.h"
#include "base/error.h"
#include "base/kind.h"
#include "communicator/communicator.h"

#include <anello/anello.h>

#include <cstddef>
#include <string>

namespace anello::api {

// Whether two ranges share a byte.
bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes);
// "anello_allreduce \"gradients\": ", the beginning of error texts.
std::string named(const anello_call_t& call);
// For a kind with two buffers: the allowed placements if the buffers may not overlap.
const char* in_place_forms(anello_kind_t kind);
// An Error that names the argument, or none.
Error check(const anello_call_t& call, int rank, int size);
// The caller's tags.
inline constexpr int kMaxTag = (1 << 30) - 1;
// Whether check would accept a send or receive; a quick test.
inline bool is_sound(const void* buffer, std::size_t count, anello_dtype_t dtype, int peer, int tag, int size) {
  constexpr std::size_t kFew = 1 << 20;
  return peer >= 0 && peer < size && tag >= 0 && tag <= kMaxTag && is_dtype(dtype) && count <= kFew &&
         buffer != nullptr && buffer != ANELLO_IN_PLACE;
}
// As above, and also checks the algorithm that the call requests.
inline Error check(const anello_call_t& call, const Communicator& communicator) {
  Error refused = check(call, communicator.rank(), communicator.size());
  if (call.algorithm != nullptr && !refused && !is_message(call.kind)) refused = communicator.why_not_algorithm(call);
  return refused;
}

}  // namespace anello::api
