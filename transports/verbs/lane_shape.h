#pragma once
// How a lane over verbs moves frames. The receiver has a ring of slots in its memory; the sender has one like it, from
// which the adapter reads. A frame begins at a slot:
//
//   | FrameHeader 40 | FrameUse 8 | payload .. | rest of its last slot unused |   next frame at the next slot
//
// The sender copies it to its own ring, and writes it in pieces of whole slots (the last may be shorter) to the same
// place of the receiver's: RDMA WRITE WITH IMMEDIATE. Its number says which slots have come, and how many slots of the
// other direction have been freed: credit. The receiver knows of a piece by that completion and never looks at memory
// for it, because an adapter may write bytes in any order.
//
// Each piece goes over one of the lane's rails (rails.h), so pieces arrive in any order, and credit may be old news.
//
// Each immediate takes one receive request of its rail at the peer. A piece takes at least one slot, a sender never has
// more slots under way than the ring has, and a piece without data returns a quarter of the ring at least. So the
// requests below always suffice, and the peer's adapter is never found unready.
#include "transports/transport.h"

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace anello::transport {

inline constexpr std::size_t kMostRails = 8;
inline constexpr std::size_t kSlotBytes = 2048;
inline constexpr std::uint32_t kSlots = 256;
inline constexpr std::size_t kLaneRingBytes = kSlots * kSlotBytes;
inline constexpr std::size_t kFrameHead = 48;  // a payload is aligned for any type
static_assert(sizeof(FrameHeader) + sizeof(std::uint64_t) == kFrameHead && kFrameHead % 16 == 0);

// Whose frame it is.
enum class FrameUse : std::uint64_t {
  user = 0,
  keys = 1,  // the transport's own: payload: MemoryKeys (memory_keys.h)
};

// A piece is under way while the next is copied.
inline constexpr std::uint32_t kPieceSlots = 32;
inline constexpr std::size_t kPieceBytes = kPieceSlots * kSlotBytes;

inline constexpr std::uint32_t kCreditSlots = kSlots / 4;  // returned without data
// Numbers without a piece: those with credit that the peer has not read yet, and those that are said once.
inline constexpr std::uint32_t kSentOnce = 1 + kMostRails;
inline constexpr std::uint32_t kSpareRequests = 2 * kSlots / kCreditSlots + kSentOnce;
inline constexpr int kLaneRequests = kSlots + kSpareRequests;  // in either direction
inline constexpr int kLaneCompletions = 2 * kLaneRequests;

constexpr std::uint32_t slots_of(std::size_t bytes) { return std::uint32_t((bytes + kSlotBytes - 1) / kSlotBytes); }

// The number that comes with a piece, or alone.
struct PieceNumber {
  std::uint8_t slots = 0;   // 0: no piece
  std::uint8_t at = 0;      // the piece's first slot
  std::uint16_t count = 0;  // credit: slots that have been freed since the lane began, modulo 2^16

  // Instead of slots. They come without a piece.
  static constexpr std::uint8_t kGoodbye = 255;  // the sender has closed the lane; count: slots that it has sent
  // A queue pair for transfers has failed; at: its port's place in the sender's greeting, count: which one.
  static constexpr std::uint8_t kNoMemory = 254;
  bool is_said_once() const { return slots >= kNoMemory; }
  std::uint32_t value() const { return std::uint32_t(slots) << 24 | std::uint32_t(at) << 16 | count; }
  static PieceNumber from(std::uint32_t value) {
    return {std::uint8_t(value >> 24), std::uint8_t(value >> 16), std::uint16_t(value)};
  }
};
static_assert(kSlots == 256, "a slot's place and a piece's slots have eight bits each");

// What goes over a rail: slots of the ring, or a number alone.
struct LanePiece {
  std::uint64_t slot = 0;   // counted from the lane's beginning
  std::uint32_t bytes = 0;  // 0: a number alone
  PieceNumber number;       // that is said once; else made when the piece goes
};

// The slots of a ring that have been passed in order, and those beyond that are marked already.
class SlotMarks {
 public:
  std::uint64_t passed() const { return passed_; }
  // False: one of them is marked already.
  bool mark(std::uint64_t slot, std::uint32_t slots) {
    for (std::uint64_t each = slot; each < slot + slots; ++each) {
      if (marks_.test(each % kSlots)) return false;
      marks_.set(each % kSlots);
    }
    for (; marks_.test(passed_ % kSlots); ++passed_) marks_.reset(passed_ % kSlots);
    return true;
  }

 private:
  std::uint64_t passed_ = 0;
  std::bitset<kSlots> marks_;
};

}  // namespace anello::transport
