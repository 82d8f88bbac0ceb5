#pragma once
// Makes the call struct from the arguments of a C function.
#include "communicator/plain_call.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstring>

namespace anello::api {

inline anello_call_t call_of(anello_kind_t kind, const void* sendbuf, void* recvbuf, std::size_t count,
                             anello_dtype_t dtype, anello_op_t op = ANELLO_SUM, int peer = 0, int tag = 0) {
  // Not ANELLO_CALL_INITIALIZER with fields set afterwards: that zeroes all of it first, with a string instruction.
  return {sizeof(anello_call_t),
          kind,
          dtype,
          op,
          peer,
          tag,
          sendbuf,
          recvbuf,
          count,
          0,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

inline anello_call_t call_of(const PlainCall& call) {
  return call_of(call.kind, call.sendbuf, call.recvbuf, call.count, call.dtype, call.op, call.root);
}

inline anello_call_t call_of(const PlainSend& send) {
  return call_of(ANELLO_SEND, send.buffer, nullptr, send.count, send.dtype, ANELLO_SUM, send.dest, send.tag);
}
inline anello_call_t call_of(const PlainReceive& receive) {
  return call_of(ANELLO_RECV, nullptr, receive.buffer, receive.count, receive.dtype, ANELLO_SUM, receive.source,
                 receive.tag);
}

// As above, with counts and displacements that differ by rank.
inline anello_call_t with_parts(anello_call_t call, const std::size_t* sendcounts, const std::size_t* sdispls,
                                const std::size_t* recvcounts, const std::size_t* rdispls) {
  call.sendcounts = sendcounts;
  call.sdispls = sdispls;
  call.recvcounts = recvcounts;
  call.rdispls = rdispls;
  return call;
}

// Converts a caller's struct, perhaps from an older header, to this header's struct. False: it is NULL, or its size was
// never valid.
inline bool complete_call(const anello_call_t* call, anello_call_t* whole) {
  *whole = ANELLO_CALL_INITIALIZER;
  if (call == nullptr || call->size < offsetof(anello_call_t, timeout_ms) || call->size > sizeof *whole ||
      call->size % sizeof(void*) != 0) {  // from there on each field is as large as a pointer
    return false;
  }
  std::memcpy(whole, call, call->size);
  return true;
}

}  // namespace anello::api
