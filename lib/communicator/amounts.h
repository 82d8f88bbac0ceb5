#pragma once
// How many elements a rank hands to a call and gets from it.
#include <anello/anello.h>

#include <cstddef>

namespace anello {

struct Amounts {
  std::size_t in;
  std::size_t out;  // 0 also where recvbuf is not looked at
};

// Of a call whose kind, root and counts are right.
Amounts amounts_of(const anello_call_t& call, int rank, int size);

}  // namespace anello
