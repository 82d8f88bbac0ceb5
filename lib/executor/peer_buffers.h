#pragma once
// Calls whose ranks may load and store each other's buffers. On entry each rank announces its own buffers on the board;
// the lines give all ranks one Reach, and so one schedule. Ranks first agree on regions that some may not have mapped,
// and on processes whose memory some may not be able to read: each rank tries, and a second round of lines tells
// whether all could.
#include "executor/line.h"
#include "memory/arena.h"
#include "transports/remote_memory.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

struct Announced {
  transport::RemoteAddress input;
  transport::RemoteAddress output;
  bool operator==(const Announced&) const = default;
};
static_assert(sizeof(Announced) == memory::kInlineBytes, "it travels in the line itself");

// A rank's line of the round `announce`, if it announces buffers.
struct Announcement {
  Announced at;
  LineKind kind = LineKind::buffers;  // or keep_away
  bool operator==(const Announcement&) const = default;
};

// A peer's buffer: in this process's address space, or in the peer's, from where this rank gets the bytes.
struct PeerBuffer {
  std::byte* at = nullptr;
  transport::RemoteMemory* remote = nullptr;  // null: `at` is this process's address
};

struct PeerBuffers {
  PeerBuffer input;
  PeerBuffer output;
};

}  // namespace anello::executor
