#pragma once
// What the executor puts into a transport's frame header.
#include "transports/transport.h"

#include <anello/anello.h>

#include <cstdint>

namespace anello::messaging {

// Tags of Anello's own messages between ranks of a communicator; the caller's are below, and ANELLO_ANY_TAG means
// those.
inline constexpr int kInternalTags = 1 << 30;
// Whether who waits for messages of one tag, or of any, takes one of that tag.
inline bool is_tag_for(int wanted, int tag) {
  return wanted == tag || (wanted == ANELLO_ANY_TAG && (tag & kInternalTags) == 0);
}

enum class FrameKind : std::uint16_t {
  step = 1,  // a piece of a schedule step's message; sequence and digest name the operation
  credit =
      2,  // argument: bytes that the receiver has consumed of this communicator's frames, of eager in the upper half
  leave = 3,  // the sender has destroyed the communicator; everything it sent came before
  eager = 4,  // a whole small message of send; tag, argument: credit returned as in step
  rts = 5,    // request to send (rendezvous.h): tag, flags: the type, argument: its bytes, sequence: its number at the
              // sender; payload: none, or its RemoteAddress
  cts = 6,    // its answer: sequence: the sender's number, argument: the receiver's, flags: Answer
  message = 7,  // a piece of a message that may be sent; argument: the receiver's number
};

// A step's frame tells how long the whole message is, in tag and flags: what the two ends of it must agree on.
inline transport::FrameHeader telling(std::size_t message_bytes) {
  transport::FrameHeader header;
  header.tag = static_cast<std::uint32_t>(message_bytes);
  header.flags = static_cast<std::uint16_t>(std::uint64_t{message_bytes} >> 32);
  return header;
}
inline std::uint64_t message_bytes_of(const transport::FrameHeader& header) {
  return std::uint64_t{header.flags} << 32 | header.tag;
}

// Frames of step and of eager are counted, each against a credit of (communicator, peer), with this much for the frame
// itself.
inline constexpr std::size_t kFrameCost = 64;
// What one rank may have under way to another within one communicator before the other has used it. Large enough to
// keep a loopback or a datacentre link busy, small enough that a process with hundreds of such pairs stays in bounds.
inline constexpr std::size_t kCredit = 2 * 1024 * 1024;
// The same for messages of send that go without asking. Apart from the former: whether a small send returns may not
// depend on what the peer has used of a collective.
inline constexpr std::size_t kSmallCredit = 1024 * 1024;
// Given back from this on.
inline constexpr std::size_t kSmallOwed = 128 * 1024;
// Messages above kEagerBytes leave this much of it to the others, which may count on it (anello_send).
inline constexpr std::size_t kCreditForSmall = kSmallCredit / 2;
// Operations that are not their communicator's oldest leave this much of it alone, so that the oldest can always go on
// (and with it, one after the other, all of them).
inline constexpr std::size_t kCreditForOldest = kCredit / 2;
// Not given back by a frame of its own (Flow::owes_much): what goes the other way takes it along. So much that of 1 MiB
// between two ranks, half of which each gets last, the next call returns it.
inline constexpr std::size_t kHeldBack = kCredit / 4 + kFrameCost;
// A frame is not cut below 32 KiB: with that and what is held back gone something must be left for the oldest.
static_assert(kCreditForOldest > kHeldBack + 32 * 1024 + kFrameCost);
// Largest message of send that may count on going without asking.
inline constexpr std::size_t kEagerBytes = 4096;
// Largest that does. Over a socket an answer takes as long as 32 KiB more; in shared memory it is two lines.
inline constexpr std::size_t kMostEagerBytes = 64 * 1024;
// The same in shared memory among ranks that share processors, where it is two hand-overs.
inline constexpr std::size_t kMostEagerShared = 384 * 1024;
// Messages that the receiver gets where it can. Smaller ones are copied twice sooner than the answer comes; larger ones
// keep two processors busy by the ring.
inline constexpr std::size_t kLeastGet = 8 * 1024;
// The same among ranks that share processors, where the answer is a hand-over, which those that go at once do without.
inline constexpr std::size_t kLeastGetShared = 48 * 1024;
inline constexpr std::size_t kMostGet = 8 * 1024 * 1024;
// Got in one piece, by the thread that has the lock.
inline constexpr std::size_t kMostGetAtOnce = 256 * 1024;
static_assert(kLeastGet > kEagerBytes);
// Announced messages that nobody has posted a receive for, per communicator.
inline constexpr std::size_t kMaxUnexpected = 65536;
// Frames for communicators that this rank has not created yet, kept in all: what so many peers may have sent ahead for
// one each.
inline constexpr std::size_t kLeastStrayPeers = 32;
// Operations of a communicator that are under way at once.
inline constexpr int kWindow = 8;

}  // namespace anello::messaging
