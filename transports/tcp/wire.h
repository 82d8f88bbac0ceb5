#pragma once
// A frame as it goes over a socket. What TCP's own sum of 16 bits lets pass, and what a switch or a host's memory
// changes after it has been checked, these find.
//
//   | FrameHeader 40 | sealed 4 | checksum of these 44 bytes 4 | payload | checksum 4, where the payload is sealed |
//
// The payload's checksum goes on from the header's, so that one frame's payload is never right behind another's header.
#include "base/checksum.h"
#include "transports/transport.h"

#include <cstddef>

namespace anello::transport {

struct WireHeader {
  FrameHeader frame;
  std::uint32_t sealed = 0;  // 1: a checksum follows the payload
  std::uint32_t checksum = 0;

  std::uint32_t right_checksum() const { return crc32c(0, this, offsetof(WireHeader, checksum)); }
};
static_assert(sizeof(WireHeader) == 48);

inline constexpr std::size_t kSealBytes = sizeof(std::uint32_t);

// ANELLO_CHECKSUM for one connection.
struct Checks {
  bool seals = false;  // payloads that are sent
  bool looks = true;   // at what comes
};

}  // namespace anello::transport
