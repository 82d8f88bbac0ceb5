#pragma once
// The parts of a rank's buffers that a call reads and writes. Elements between them belong to the caller throughout.
#include "communicator/in_place.h"

#include <anello/anello.h>

#include <cstddef>
#include <vector>

namespace anello {

// In elements, from the start of the buffer that set_buffers() names (call_buffers.h).
struct CallPart {
  std::size_t at;
  std::size_t count;
};

struct CallParts {
  std::vector<CallPart> reads;   // of the input
  std::vector<CallPart> writes;  // of the output
};

// For a checked call. In place, the input begins where the output does.
CallParts parts_of(const anello_call_t& call, int rank, int size, InPlace place);

// The elements from the start of the buffer to the end of its last part.
std::size_t extent_of(const std::vector<CallPart>& parts);

}  // namespace anello
