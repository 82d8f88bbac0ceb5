#pragma once
// The messages and receives that the fast path (fast_messages.cpp) hands to the route without an operation.
#include "messaging/frame.h"

#include <cstddef>
#include <cstdint>

namespace anello::messaging {

struct SmallMessage {
  const std::byte* payload = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  std::uint16_t dtype = 0;
};

struct SmallReceive {
  std::byte* into = nullptr;
  std::size_t bytes = 0;  // room in `into`; once taken, the message's size
  int tag = 0;            // or ANELLO_ANY_TAG; once taken, the message's tag
  std::uint16_t dtype = 0;

  // Whether this receive can take the message without telling anybody; sets the fields above if so.
  bool takes(int of_tag, std::uint16_t of_dtype, std::size_t of_bytes) {
    if (!is_tag_for(tag, of_tag) || dtype != of_dtype || of_bytes > bytes) return false;
    tag = of_tag;
    bytes = of_bytes;
    return true;
  }
};

}  // namespace anello::messaging
