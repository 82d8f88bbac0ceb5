#pragma once
// How a lane over verbs moves frames. The receiver has a ring of slots in its memory; the sender has one like it, from
// which the adapter reads. A frame begins at a slot:
//
//   | FrameHeader 40 | 8 unused | payload .. | rest of its last slot unused |   next frame at the next slot
//
// The sender copies it to its own ring, and writes it in pieces of whole slots (the last may be shorter) to the same
// place of the receiver's: RDMA WRITE WITH IMMEDIATE. Its number says how many slots have come, and how many slots of
// the other direction are free again: credit. The receiver knows of a piece by that completion and never looks at
// memory for it, because an adapter may write bytes in any order.
//
// Each immediate takes one receive request at the peer. A piece takes at least one slot, a sender never has more slots
// under way than the ring has, and a piece without data returns a quarter of the ring at least. So the requests below
// always suffice, and the peer's adapter is never found unready.
#include "transports/transport.h"

#include <cstddef>
#include <cstdint>

namespace anello::transport {

inline constexpr std::size_t kSlotBytes = 2048;
inline constexpr std::uint32_t kSlots = 256;
inline constexpr std::size_t kLaneRingBytes = kSlots * kSlotBytes;
inline constexpr std::size_t kFrameHead = 48;  // a payload is aligned for any type
static_assert(sizeof(FrameHeader) <= kFrameHead && kFrameHead % 16 == 0);

// A piece is under way while the next is copied.
inline constexpr std::uint32_t kPieceSlots = 32;
inline constexpr std::size_t kPieceBytes = kPieceSlots * kSlotBytes;

inline constexpr std::uint32_t kCreditSlots = kSlots / 4;  // returned without data
// Pieces without data: those with credit that the peer has not read yet, and those that are sent once (PieceNumber).
inline constexpr std::uint32_t kSentOnce = 2;
inline constexpr std::uint32_t kSpareRequests = 2 * kSlots / kCreditSlots + kSentOnce;
inline constexpr int kLaneRequests = kSlots + kSpareRequests;  // in either direction
inline constexpr int kLaneCompletions = 2 * kLaneRequests;

constexpr std::uint32_t slots_of(std::size_t bytes) { return std::uint32_t((bytes + kSlotBytes - 1) / kSlotBytes); }

// The number that comes with a piece.
struct PieceNumber {
  std::uint16_t slots = 0;
  std::uint16_t credit = 0;

  // No slots, no credit:
  static constexpr std::uint32_t kGoodbye = 0xffffffff;   // the sender has closed the lane
  static constexpr std::uint32_t kNoMemory = 0xfffffffe;  // its queue pair for memory has failed (transfers.h)
  std::uint32_t value() const { return std::uint32_t(slots) << 16 | credit; }
  static PieceNumber from(std::uint32_t value) { return {std::uint16_t(value >> 16), std::uint16_t(value)}; }
};

}  // namespace anello::transport
