#pragma once
#include <anello/anello.h>

#include <cstdint>

namespace anello {

// Whether the call's one buffer holds both what this rank hands in and what it gets: said with ANELLO_IN_PLACE, or by
// the address at which the one stands in the other.
enum class InPlace : std::uint8_t {
  no,
  yes,       // recvbuf is that buffer; of scatter sendbuf
  own_part,  // of a reduce_scatter sendbuf is, and the result replaces this rank's part of it alone
};

// Needs no valid arguments.
InPlace in_place(const anello_call_t& call, int rank);

}  // namespace anello
