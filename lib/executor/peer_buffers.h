#pragma once
// Calls whose ranks may load and store each other's buffers. On entry each rank says on the board where its own are;
// from the same lines all ranks find the same Reach, and by that the same schedule. Regions that not all are known to
// have mapped, and processes whose memory not all are known to be able to read, are agreed on first: each rank tries,
// and a second round of lines tells whether all could.
#include "executor/line.h"
#include "memory/arena.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

// What a rank says of one buffer.
struct AnnouncedBuffer {
  std::uint64_t address = 0;  // in its own process; 0: it has none
  std::uint64_t region = 0;   // 0: in none
  std::uint64_t offset = 0;   // there
  bool operator==(const AnnouncedBuffer&) const = default;
};

struct Announced {
  AnnouncedBuffer input;
  AnnouncedBuffer output;
  bool operator==(const Announced&) const = default;
};
static_assert(sizeof(Announced) == memory::kInlineBytes, "it travels in the line itself");

// A rank's line of the round, where it is of buffers.
struct Announcement {
  Announced at;
  LineKind kind = LineKind::buffers;  // or keep_away
  bool operator==(const Announcement&) const = default;
};

// A peer's buffer: in this process's address space, or in its own, to be read by system call.
struct PeerBuffer {
  std::byte* at = nullptr;
  const memory::Sample* process = nullptr;  // null: this one's
};

struct PeerBuffers {
  PeerBuffer input;
  PeerBuffer output;
};

}  // namespace anello::executor
