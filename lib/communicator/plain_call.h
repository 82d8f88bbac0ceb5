#pragma once
// Calls with nothing beyond their arguments: no label, deadline, algorithm or counts by rank. Most of them go a short way, for
// which the whole call struct would be much to fill in.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>

namespace anello {

// A collective.
struct PlainCall {
  anello_kind_t kind = ANELLO_BARRIER;
  const void* sendbuf = nullptr;
  void* recvbuf = nullptr;
  std::size_t count = 0;
  anello_dtype_t dtype = ANELLO_UINT8;
  anello_op_t op = ANELLO_SUM;
  int root = 0;

  bool operator==(const PlainCall&) const = default;
  // Calls that differ have other marks, nearly always. Never 0.
  std::uintptr_t mark() const {
    return (reinterpret_cast<std::uintptr_t>(sendbuf) * 3 + reinterpret_cast<std::uintptr_t>(recvbuf) + (count << 20) +
            (static_cast<std::uintptr_t>(kind) << 1)) | 1;
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
