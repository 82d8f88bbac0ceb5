#pragma once
// What the fast path of messages (fast_messages.cpp) hands to the route: no operation, only what is sent or wanted.
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
  std::size_t bytes = 0;  // that there is room for; once taken, of the message
  int tag = 0;            // or any; once taken, the message's
  std::uint16_t dtype = 0;

  // Whether such a message can go into it without a word to anybody; it then is what is said above.
  bool takes(int of_tag, std::uint16_t of_dtype, std::size_t of_bytes) {
    if (!is_tag_for(tag, of_tag) || dtype != of_dtype || of_bytes > bytes) return false;
    tag = of_tag;
    bytes = of_bytes;
    return true;
  }
};

}  // namespace anello::messaging
