#pragma once
// The number of elements that a rank passes to a call and gets from it.
#include <anello/anello.h>

#include <cstddef>

namespace anello {

struct Amounts {
  std::size_t in;
  std::size_t out;  // also 0 if recvbuf is ignored
};

// For a call whose kind, root and counts are valid.
Amounts amounts_of(const anello_call_t& call, int rank, int size);

}  // namespace anello
