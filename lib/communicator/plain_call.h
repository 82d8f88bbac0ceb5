#pragma once
// A collective with nothing beyond its arguments: no label, deadline, algorithm or counts by rank.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>

namespace anello {

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

}  // namespace anello
