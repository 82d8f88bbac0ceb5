#pragma once
#include <anello/anello.h>

#include <cstdint>

namespace anello {

// Whether one buffer holds both the input and the result of this rank: the caller says so with ANELLO_IN_PLACE, or by
// the address of one in the other.
enum class InPlace : std::uint8_t {
  no,
  yes,       // recvbuf is that buffer; for scatter, sendbuf
  own_part,  // for a reduce_scatter, sendbuf is that buffer, and the result replaces only this rank's part of it
};

// The arguments need not be valid.
InPlace in_place(const anello_call_t& call, int rank);

}  // namespace anello
