#pragma once
// The call struct from the arguments of a C function.
#include <anello/anello.h>

namespace anello::api {

inline anello_call_t call_of(anello_kind_t kind, const void* sendbuf, void* recvbuf, std::size_t count,
                             anello_dtype_t dtype, anello_op_t op = ANELLO_SUM, int peer = 0, int tag = 0) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.dtype = dtype;
  call.op = op;
  call.peer = peer;
  call.tag = tag;
  call.sendbuf = sendbuf;
  call.recvbuf = recvbuf;
  call.count = count;
  return call;
}

}  // namespace anello::api
