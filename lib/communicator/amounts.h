#pragma once
// How many elements a rank hands to a call and gets from it.
#include <anello/anello.h>

#include <cstddef>

namespace anello {

struct Amounts {
  std::size_t in;
  std::size_t out;  // 0 also where recvbuf is not looked at
};

// Of collectives; of those with counts, reduce_scatter alone. Requires: count * size fits.
Amounts amounts_of(const anello_call_t& call, int rank, int size);

}  // namespace anello
