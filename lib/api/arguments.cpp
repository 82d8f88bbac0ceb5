#include "api/arguments.h"

#include "base/dtype.h"
#include "base/kind.h"
#include "base/text.h"

#include <cstdint>

namespace anello::api {

namespace {

constexpr int kMaxTag = (1 << 30) - 1;

Error argument(const anello_call_t& call, const std::string& what) {
  return {ANELLO_ERR_ARGUMENT, text("anello_", kind_name(call.kind), ": ", what)};
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a);
  const auto y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

Error check(const anello_call_t& call, int rank, int size) {
  const int kind = call.kind;
  if (kind < ANELLO_ALLREDUCE || kind > ANELLO_RECV) return argument(call, text("there is no kind ", kind));
  if (call.timeout_ms < 0) return argument(call, text("timeout_ms ", call.timeout_ms, " is negative"));
  if (kind == ANELLO_BARRIER) return {};
  if (!is_dtype(call.dtype)) {
    return {ANELLO_ERR_TYPE, text("anello_", kind_name(kind), ": ", int(call.dtype), " is no anello_dtype_t")};
  }
  const bool reduces = kind == ANELLO_ALLREDUCE || kind == ANELLO_REDUCE_SCATTER_BLOCK;
  if (reduces && !is_op(call.op)) {
    return {ANELLO_ERR_TYPE, text("anello_", kind_name(kind), ": ", int(call.op), " is no anello_op_t")};
  }
  if (reduces && !makes_sense(call.dtype, call.op)) {
    return {ANELLO_ERR_TYPE, text("anello_", kind_name(kind), ": ", op_name(call.op), " of ", dtype_name(call.dtype),
                                  " makes no sense; ", op_name(call.op), " takes ", what_op_takes(call.op))};
  }
  const bool message = kind == ANELLO_SEND || kind == ANELLO_RECV;
  const bool any_source = kind == ANELLO_RECV && call.peer == ANELLO_ANY_SOURCE;
  if ((message || kind == ANELLO_BROADCAST) && !any_source && (call.peer < 0 || call.peer >= size)) {
    return argument(call, text(kind == ANELLO_BROADCAST ? "root " : kind == ANELLO_SEND ? "dest " : "source ", call.peer,
                               " is not a rank of this communicator (0 to ", size - 1, ")"));
  }
  if (message && !(kind == ANELLO_RECV && call.tag == ANELLO_ANY_TAG) && (call.tag < 0 || call.tag > kMaxTag)) {
    return argument(call, text("tag ", call.tag, " is not in 0 to ", kMaxTag));
  }
  const std::size_t element = dtype_bytes(call.dtype);
  const std::size_t ranks = static_cast<std::size_t>(size);
  if (call.count > SIZE_MAX / 2 / element / ranks) return argument(call, text("count ", call.count, " is too large"));
  if (call.count == 0) return {};

  const std::size_t part = call.count * element;
  const bool gathers = kind == ANELLO_ALLGATHER;
  const bool scatters = kind == ANELLO_REDUCE_SCATTER_BLOCK;
  const bool in_place = call.sendbuf == ANELLO_IN_PLACE;
  if (kind != ANELLO_SEND && call.recvbuf == nullptr) {
    return argument(call, kind == ANELLO_BROADCAST || kind == ANELLO_RECV ? "buffer is NULL" : "recvbuf is NULL");
  }
  if (kind == ANELLO_BROADCAST || kind == ANELLO_RECV) return {};
  if (call.sendbuf == nullptr) return argument(call, kind == ANELLO_SEND ? "buffer is NULL" : "sendbuf is NULL");
  if (kind == ANELLO_SEND) return in_place ? argument(call, "buffer is ANELLO_IN_PLACE") : Error();
  if (in_place || (kind == ANELLO_ALLREDUCE && call.sendbuf == call.recvbuf)) return {};
  if (gathers && call.sendbuf == static_cast<const char*>(call.recvbuf) + std::size_t(rank) * part) return {};
  if (overlap(call.sendbuf, scatters ? part * ranks : part, call.recvbuf, gathers ? part * ranks : part)) {
    return argument(call, "sendbuf and recvbuf overlap; use ANELLO_IN_PLACE or separate buffers");
  }
  return {};
}

}  // namespace anello::api
