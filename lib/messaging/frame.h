#pragma once
// The executor's use of a transport's frame header.
#include "transports/transport.h"

#include <anello/anello.h>

#include <cstdint>

namespace anello::messaging {

// Tags of Anello's own messages between ranks of a communicator. The caller's tags are below, and ANELLO_ANY_TAG
// matches only those.
inline constexpr int kInternalTags = 1 << 30;
// Whether a receiver that waits for one tag, or any, takes a message with this tag.
inline bool is_tag_for(int wanted, int tag) {
  return wanted == tag || (wanted == ANELLO_ANY_TAG && (tag & kInternalTags) == 0);
}

enum class FrameKind : std::uint16_t {
  step = 1,  // a piece of a schedule step's message; sequence and digest name the operation
  credit =
      2,  // argument: bytes that the receiver has consumed of this communicator's frames, of eager in the upper half
  leave = 3,  // the sender has destroyed the communicator; everything it sent came before; flags: the error that the
              // communicator had there, tag: the world rank that the error is about, plus one
  eager = 4,  // a whole small message of send; tag, argument: credit returned as in step
  rts = 5,    // request to send (rendezvous.h): tag, flags: the type, argument: its bytes, sequence: its number at the
              // sender; payload: none, or its RemoteAddress
  cts = 6,    // answer to rts: sequence: the sender's number, argument: the receiver's, flags: Answer
  message = 7,        // a piece of a message after its cts; argument: the receiver's number
  rts_on_device = 8,  // like rts, of a message in a device's memory, whose RemoteAddress is for devices
  step_rts = 9,   // in place of all of a message's step frames, with the same fields: where the receiver may get it;
                  // payload: its RemoteAddress
  step_cts = 10,  // answer to the first step_rts of its lane that has none; sequence, digest: the operation's,
                  // flags: Answer::done or Answer::send, argument: of send, from which byte of the message on
};

// The frames that count against the credit of steps, and wait for their operation.
inline bool is_of_step(FrameKind kind) { return kind == FrameKind::step || kind == FrameKind::step_rts; }

// A step's frame holds the length of the whole message in tag and flags; both ends must agree on it.
inline transport::FrameHeader telling(std::size_t message_bytes) {
  transport::FrameHeader header;
  header.tag = static_cast<std::uint32_t>(message_bytes);
  header.flags = static_cast<std::uint16_t>(std::uint64_t{message_bytes} >> 32);
  return header;
}
inline std::uint64_t message_bytes_of(const transport::FrameHeader& header) {
  return std::uint64_t{header.flags} << 32 | header.tag;
}

// Frames of steps and eager ones count, separately, against the credit of their (communicator, peer); this is the cost
// of the frame itself.
inline constexpr std::size_t kFrameCost = 64;
// Bytes that one rank may have under way to another within one communicator before the other has used them. Large
// enough to keep a loopback or a datacentre link busy, small enough to bound a process with hundreds of such pairs.
inline constexpr std::size_t kCredit = 2 * 1024 * 1024;
// Credit for messages of send that go without asking. It is separate: whether a small send returns must not depend on
// the peer's progress in a collective.
inline constexpr std::size_t kSmallCredit = 1024 * 1024;
// Eager credit is given back from this much on.
inline constexpr std::size_t kSmallOwed = 128 * 1024;
// Messages above kEagerBytes leave this much credit to smaller ones, which may rely on it (anello_send).
inline constexpr std::size_t kCreditForSmall = kSmallCredit / 2;
// Operations that are not their communicator's oldest leave this much credit, so that the oldest can always go on (and
// so all of them do, one after the other).
inline constexpr std::size_t kCreditForOldest = kCredit / 2;
// Up to this much is not given back by a frame of its own (Credits::owes_much): frames the other way carry it. It is
// large enough that after a call over 1 MiB between two ranks, each of which receives half of it last, the next call
// returns the credit.
inline constexpr std::size_t kHeldBack = kCredit / 4 + kFrameCost;
// A frame is not cut below 32 KiB: beside it and the credit held back, some must be left for the oldest.
static_assert(kCreditForOldest > kHeldBack + 32 * 1024 + kFrameCost);
// Largest message of send that may rely on going without asking.
inline constexpr std::size_t kEagerBytes = 4096;
// Largest one that ever does. Over a socket an answer takes as long as 32 KiB more; in shared memory it is two lines.
inline constexpr std::size_t kMostEagerBytes = 64 * 1024;
// The limit in shared memory among ranks that share processors, where an answer is two hand-overs.
inline constexpr std::size_t kMostEagerShared = 384 * 1024;
// Sizes of the messages that the receiver gets where it can. Copying smaller ones twice takes less time than an answer;
// larger ones keep two processors busy through the ring.
inline constexpr std::size_t kLeastGet = 8 * 1024;
// The least among ranks that share processors, where the answer is a hand-over, which eager messages save.
inline constexpr std::size_t kLeastGetShared = 48 * 1024;
inline constexpr std::size_t kMostGet = 8 * 1024 * 1024;
// Largest message that the thread with the lock gets in one piece.
inline constexpr std::size_t kMostGetAtOnce = 256 * 1024;
static_assert(kLeastGet > kEagerBytes);
// Most announced messages without a posted receive, per communicator.
inline constexpr std::size_t kMaxUnexpected = 65536;
// A rank keeps frames for communicators that it has not created yet: at least as much as this many peers may send ahead
// for one communicator each.
inline constexpr std::size_t kLeastStrayPeers = 32;
// Most operations of a communicator that are under way at once.
inline constexpr int kWindow = 8;

}  // namespace anello::messaging
