#include "api/arguments.h"

#include "api/varying_arguments.h"
#include "base/custom_op.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "base/label.h"
#include "base/text.h"
#include "communicator/amounts.h"
#include "communicator/in_place.h"
#include "communicator/premultiply.h"

#include <cstdint>

namespace anello::api {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a);
  const auto y = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

std::string named(const anello_call_t& call) {
  return text("anello_", kind_name(call.kind), Label(call.label).quoted(), ": ");
}

const char* in_place_forms(anello_kind_t kind) {
  switch (kind) {
    case ANELLO_ALLGATHER:
    case ANELLO_ALLGATHERV:
    case ANELLO_GATHER:
    case ANELLO_GATHERV: return "use separate buffers, ANELLO_IN_PLACE, or as sendbuf this rank's part of recvbuf";
    case ANELLO_SCATTER:
    case ANELLO_SCATTERV:
    case ANELLO_REDUCE_SCATTER_BLOCK:
    case ANELLO_REDUCE_SCATTER:
      return "use separate buffers, ANELLO_IN_PLACE, or as recvbuf this rank's part of sendbuf";
    default: return "use separate buffers, ANELLO_IN_PLACE, or the same address for both";
  }
}

namespace {

Error argument(const anello_call_t& call, const std::string& what) { return {ANELLO_ERR_ARGUMENT, named(call) + what}; }

Error type(const anello_call_t& call, const std::string& what) { return {ANELLO_ERR_TYPE, named(call) + what}; }

// For calls that have one.
Error check_buffer(const anello_call_t& call) {
  const void* const buffer = call.kind == ANELLO_SEND ? call.sendbuf : call.recvbuf;
  if (buffer == nullptr) return argument(call, "buffer is NULL");
  if (buffer == ANELLO_IN_PLACE) return argument(call, "buffer is ANELLO_IN_PLACE");
  return {};
}

Error check_buffers(const anello_call_t& call, int rank, int size) {
  const Amounts amounts = amounts_of(call, rank, size);
  const std::size_t send = amounts.in * dtype_bytes(call.dtype);
  const std::size_t receive = amounts.out * dtype_bytes(call.dtype);
  const bool is_in_place = in_place(call, rank) != InPlace::no;
  const bool scatter = call.kind == ANELLO_SCATTER;
  if (kind_has_root(call.kind) && rank != call.peer && (scatter ? call.recvbuf : call.sendbuf) == ANELLO_IN_PLACE) {
    return argument(call, text("ANELLO_IN_PLACE is for the root, rank ", call.peer, "; this is rank ", rank));
  }
  if (scatter ? call.sendbuf == ANELLO_IN_PLACE && send > 0 : call.recvbuf == ANELLO_IN_PLACE) {
    return argument(call, scatter ? "sendbuf is ANELLO_IN_PLACE; scatter takes it as the root's recvbuf"
                                  : "recvbuf is ANELLO_IN_PLACE; it goes in place of sendbuf");
  }
  // In place there is one buffer: scatter's input, and the output of all other calls.
  if ((receive > 0 || (is_in_place && !scatter)) && call.recvbuf == nullptr) return argument(call, "recvbuf is NULL");
  if (send > 0 && call.sendbuf == nullptr) return argument(call, "sendbuf is NULL");
  if (!is_in_place && overlap(call.sendbuf, send, call.recvbuf, receive)) {
    return argument(call, text("sendbuf and recvbuf overlap; ", in_place_forms(call.kind)));
  }
  return {};
}

// For the caller's own operations.
Error check_custom(const anello_call_t& call) {
  const auto custom = find_custom_op(call.op);
  if (custom == nullptr) {
    return {ANELLO_ERR_STATE, text("anello_", kind_name(call.kind), ": the operation was freed or never existed")};
  }
  if (custom->function == nullptr) {
    const std::string why = why_not_premultiplied(*custom, call.dtype);
    return why.empty() ? Error() : type(call, why);
  }
  if (custom->element_bytes == 0 || custom->element_bytes == dtype_bytes(call.dtype)) return {};
  return type(call, text("operation '", custom->name, "' takes elements of ", custom->element_bytes, " bytes, and ",
                         dtype_name(call.dtype), " has ", dtype_bytes(call.dtype)));
}

}  // namespace

Error check(const anello_call_t& call, int rank, int size) {
  const int kind = call.kind;
  if (!is_kind(kind)) return argument(call, text("there is no kind ", kind));
  if (call.timeout_ms < 0) return argument(call, text("timeout_ms ", call.timeout_ms, " is negative"));
  if (kind == ANELLO_BARRIER) return {};
  if (!is_dtype(call.dtype)) return type(call, text(int(call.dtype), " is not an anello_dtype_t"));
  if (kind_reduces(kind) && is_custom_op(call.op)) {
    if (Error error = check_custom(call)) return error;
  } else if (kind_reduces(kind) && !is_op(call.op)) {
    return type(call, text(int(call.op), " is not an anello_op_t"));
  }
  if (kind_is_prefix(kind) && call.op == ANELLO_AVG) {
    return type(call,
                "ANELLO_AVG divides by the number of ranks, which is not how many are in a prefix; use ANELLO_SUM");
  }
  if (kind_reduces(kind) && !is_custom_op(call.op) && !makes_sense(call.dtype, call.op)) {
    return type(call, text(op_name(call.op), " of ", dtype_name(call.dtype), " makes no sense; ", op_name(call.op),
                           " takes ", what_op_takes(call.op)));
  }
  const bool any_source = has_status(kind) && call.peer == ANELLO_ANY_SOURCE;
  const bool nobody = is_message(kind) && call.peer == ANELLO_RANK_NULL;
  if ((is_message(kind) || kind_has_root(kind)) && !any_source && !nobody && (call.peer < 0 || call.peer >= size)) {
    return argument(call, text(kind_has_root(kind)   ? "root "
                               : kind == ANELLO_SEND ? "dest "
                                                     : "source ",
                               call.peer, " is not a rank of this communicator (0 to ", size - 1, ")"));
  }
  if (is_message(kind) && !(has_status(kind) && call.tag == ANELLO_ANY_TAG) && (call.tag < 0 || call.tag > kMaxTag)) {
    return argument(call, text("tag ", call.tag, " is not in 0 to ", kMaxTag));
  }
  if (kind_is_varying(kind)) return check_varying(call, rank, size);
  const std::size_t element = dtype_bytes(call.dtype);
  const std::size_t ranks = static_cast<std::size_t>(size);
  if (call.count > SIZE_MAX / 2 / element / ranks) return argument(call, text("count ", call.count, " is too large"));
  if (call.count == 0 || nobody || kind == ANELLO_PROBE) return {};
  return is_message(kind) || kind == ANELLO_BROADCAST ? check_buffer(call) : check_buffers(call, rank, size);
}

}  // namespace anello::api
