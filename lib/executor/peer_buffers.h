#pragma once
// Calls whose ranks may load and store each other's buffers. On entry each rank says on the board where its own are;
// from the same lines all ranks find the same Reach, and by that the same schedule. Regions that not all are known to
// have mapped, and processes whose memory not all are known to be able to read, are agreed on first: each rank tries,
// and a second round of lines tells whether all could.
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

// A rank's line of the round, where it is of buffers.
struct Announcement {
  Announced at;
  LineKind kind = LineKind::buffers;  // or keep_away
  bool operator==(const Announcement&) const = default;
};

// A peer's buffer: in this process's address space, or in the peer's own, to be got from there.
struct PeerBuffer {
  std::byte* at = nullptr;
  transport::RemoteMemory* remote = nullptr;  // null: `at` is this process's address
};

struct PeerBuffers {
  PeerBuffer input;
  PeerBuffer output;
};

}  // namespace anello::executor
