#pragma once
#include <anello/anello.h>

#include <cstddef>

namespace anello::api {

// Bytes that this rank hands in and gets back, of a call whose kind, type, root and counts are right.
struct Sizes {
  std::size_t send;
  std::size_t receive;
};
Sizes buffer_sizes(const anello_call_t& call, int rank, int size);

}  // namespace anello::api
