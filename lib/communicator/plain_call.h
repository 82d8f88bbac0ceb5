#pragma once
// Calls with nothing beyond their arguments: no label, deadline, algorithm or counts by rank. Most of them take a short
// path, for which filling in the whole call struct would take too long.
#include "base/kind.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace anello {

// The mark of a collective.
struct PlainCall {
  anello_kind_t kind = ANELLO_BARRIER;
  const void* sendbuf = nullptr;
  void* recvbuf = nullptr;
  std::size_t count = 0;
  anello_dtype_t dtype = ANELLO_UINT8;
  anello_op_t op = ANELLO_SUM;
  int root = 0;

  // There is none for a message, or for a call with more than its arguments.
  static std::optional<PlainCall> of(const anello_call_t& call) {
    const bool parts =
        call.sendcounts != nullptr || call.sdispls != nullptr || call.recvcounts != nullptr || call.rdispls != nullptr;
    const bool has_more =
        parts || call.tag != 0 || call.timeout_ms != 0 || call.algorithm != nullptr || call.label != nullptr;
    if (has_more || is_message(call.kind)) return std::nullopt;
    return PlainCall{call.kind, call.sendbuf, call.recvbuf, call.count, call.dtype, call.op, call.peer};
  }

  bool operator==(const PlainCall&) const = default;
  // Different calls nearly always have different marks. Never 0.
  std::uintptr_t mark() const {
    return (reinterpret_cast<std::uintptr_t>(sendbuf) * 3 + reinterpret_cast<std::uintptr_t>(recvbuf) + (count << 20) +
            (static_cast<std::uintptr_t>(kind) << 1)) |
           1;
  }
};

struct PlainSend {
  const void* buffer;
  std::size_t count;
  anello_dtype_t dtype;
  int dest;
  int tag;
};

struct PlainReceive {
  void* buffer;
  std::size_t count;
  anello_dtype_t dtype;
  int source;
  int tag;
};

}  // namespace anello
