#pragma once
// The layout of frames in a ring. Positions count the stream's bytes from 0 forever, and wrap in the ring's memory.
// A frame is a Slot (one cache line) and its payload, which starts on the next line and is padded to whole lines; up
// to kInlined bytes travel inside the slot instead.
//
//      position p        p + 64                                    e
//      | Slot, stamp = t | payload ....................... padding | next Slot, stamp = 0 |
//
// The stamp tells two things at once, so a small frame costs the receiver one cache line and no read of the tail: the
// frame is there, and the stream has arrived up to position t. RingControl::tail announces the rest of a large payload.
// The sender clears the stamp at e before it announces the last byte before e. The receiver reads e only after that, so
// it sees 0 or a true stamp, never old payload. For the same reason one line of the ring always stays free.
#include "memory/arena.h"
#include "transports/transport.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anello::transport {

inline constexpr std::size_t kInlined = 16;
inline constexpr std::size_t kMinRingBytes = 4096;

struct alignas(memory::kLine) Slot {
  std::atomic<std::uint64_t> stamp;  // 0: nothing yet; kClosed; else a position, a multiple of kLine
  std::uint32_t bytes;
  std::uint16_t kind;
  std::uint16_t flags;
  std::byte inlined[kInlined];
  std::uint64_t communicator;
  std::uint64_t digest;
  std::uint32_t sequence;
  std::uint32_t tag;
  std::uint64_t argument;
};
static_assert(sizeof(Slot) == memory::kLine && offsetof(Slot, inlined) == 16);

// As a stamp: the sender has closed its end. As the lowest bit of the tail: it has done so in the middle of a frame.
inline constexpr std::uint64_t kClosed = 1;
// In the stamp of a whole frame: kSpace unused bytes come before the next slot. The position counts them.
inline constexpr std::uint64_t kSpaced = 2;
// A processor that loads a payload from its beginning often prefetches the lines behind it, too, so a sender that has
// claimed them for the next frame loses them again. The prefetch does not go beyond this distance.
inline constexpr std::size_t kSpace = 2048;

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + memory::kLine - 1) & ~(memory::kLine - 1); }
// Bytes of the stream that a payload takes after its slot.
constexpr std::size_t body_bytes(std::size_t payload) { return payload <= kInlined ? 0 : whole_lines(payload); }

}  // namespace anello::transport
