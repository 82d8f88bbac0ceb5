#pragma once
// A frame as it goes over a socket. Its checksums find errors that TCP's own 16-bit sum misses, and those that a switch
// or a host's memory makes after that sum has been checked.
//
//   | FrameHeader 40 | sealed 4 | checksum of these 44 bytes 4 | payload | checksum 4, where the payload is sealed |
//
// The payload's checksum continues the header's, so a payload is never right behind another frame's header.
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
  bool seals = false;  // sent payloads get a checksum
  bool looks = true;   // received checksums are checked
};

}  // namespace anello::transport
