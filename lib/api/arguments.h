#pragma once
// What can be said of a call's arguments without asking anybody.
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
// "anello_allreduce \"gradients\": ", as texts begin.
std::string named(const anello_call_t& call);
// An Error that names the argument, or none.
Error check(const anello_call_t& call, int rank, int size);
// Tags of the caller's.
inline constexpr int kMaxTag = (1 << 30) - 1;
// Whether a call is a send or receive of which check has nothing to say, seen at a glance.
inline bool is_plain_message(const anello_call_t& call, int size) {
  const void* const buffer = call.kind == ANELLO_SEND ? call.sendbuf : call.recvbuf;
  constexpr std::size_t kPlainCount = 1 << 20;
  return (call.kind == ANELLO_SEND || call.kind == ANELLO_RECV) && call.peer >= 0 && call.peer < size && call.tag >= 0 &&
         call.tag <= kMaxTag && is_dtype(call.dtype) && call.count <= kPlainCount && call.timeout_ms >= 0 && buffer != nullptr &&
         buffer != ANELLO_IN_PLACE;
}
// The same, and of the algorithm that the call asks for.
inline Error check(const anello_call_t& call, const Communicator& communicator) {
  Error refused = check(call, communicator.rank(), communicator.size());
  if (call.algorithm != nullptr && !refused && !is_message(call.kind)) refused = communicator.why_not_algorithm(call);
  return refused;
}

}  // namespace anello::api
