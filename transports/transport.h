#pragma once
// What a transport implements: Endpoint, an ordered and reliable lane of frames between two ranks, and Transport, which
// opens lanes and may have remote memory beside them (remote_memory.h). Written for the executor, which alone calls
// them, one thread at a time per context (the holder of its lock). Nothing here blocks, calls up, logs, or throws after
// open() has returned.
//
// A frame is a header and at most kMaxFrameBytes of payload. Frames arrive whole or not at all, in the order sent,
// but sender and receiver move the payload piecewise, as room and bytes come.
#include "base/error.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace anello::transport {

class RemoteMemory;  // remote_memory.h

inline constexpr std::size_t kMaxFrameBytes = 1024 * 1024;
// What most lanes are best given of a long message at a time.
inline constexpr std::size_t kFrameBytes = 256 * 1024;

// Little-endian, as it travels. What the fields mean beyond `bytes` is the executor's business.
struct FrameHeader {
  std::uint32_t bytes = 0;  // of payload that follow, at most kMaxFrameBytes
  std::uint16_t kind = 0;
  std::uint16_t flags = 0;
  std::uint64_t communicator = 0;
  std::uint64_t digest = 0;
  std::uint32_t sequence = 0;
  std::uint32_t tag = 0;
  std::uint64_t argument = 0;
};
static_assert(sizeof(FrameHeader) == 40);

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // -- Sending: at most one frame at a time is under way -----------------------------------------------------
  // Offers a frame. True: taken completely, the payload's memory is the caller's again. False: no room for all of
  // it; the endpoint may have taken a part, and the caller repeats the same call (same header, same payload) later
  // and offers nothing else before it has returned true, unless it calls detach.
  virtual bool send(const FrameHeader& header, const std::byte* payload) = 0;
  // True between a send that took a part and the one that takes the rest.
  virtual bool mid_frame() const = 0;
  // How much of a long message is best offered as one frame, at most kMaxFrameBytes.
  virtual std::size_t frame_bytes() const { return kFrameBytes; }
  // Gives the caller's payload free in the middle of a frame: what is left of it is copied and goes out by flush,
  // so that an aborted operation neither keeps its buffer nor breaks the lane for others. No-op between frames.
  virtual void detach() = 0;
  // Moves what the endpoint itself holds; true when it holds nothing. send returns false until then.
  virtual bool flush() = 0;
  // Of what was taken, bytes that this end's system still holds: they may not outlive the endpoint. 0 where nothing can
  // be lost any more, or all is.
  virtual std::size_t on_the_way() const { return 0; }

  // -- Receiving ----------------------------------------------------------------------------------------------
  // The header of the frame that is arriving, once it is complete; nullptr: none yet. Stays the same until all of
  // its payload was consumed; the next call after that moves on. Never throws away payload by itself.
  virtual const FrameHeader* incoming() = 0;
  // Of the current frame's payload: bytes not yet consumed.
  virtual std::size_t remaining() const = 0;
  // Copies what has arrived of the rest, at most bytes, to into. Returns bytes copied (0: nothing there yet).
  virtual std::size_t receive(std::byte* into, std::size_t bytes) = 0;
  // Bytes of the rest that have arrived, where they lie, aligned for any type if everything consumed before in this
  // frame was a multiple of 16. May be shorter than what remains; empty: nothing yet. Valid until the next call
  // on this endpoint. consume() gives back the first bytes of it. Unless it ends the frame, a view has at least
  // 16 bytes or is empty, so whole elements always come through.
  virtual std::span<const std::byte> view() = 0;
  virtual void consume(std::size_t bytes) = 0;
  // Bytes of the rest that receive would copy now. May say less than that.
  virtual std::size_t arrived() { return view().size(); }

  // -- State ---------------------------------------------------------------------------------------------------
  // Set once, by any of the above, when the lane is broken (after that they do nothing): ANELLO_ERR_PEER_LOST when
  // the peer closed it, ANELLO_ERR_CORRUPT for a header that cannot be. Bytes that arrived before are delivered first.
  virtual const Error* failure() const = 0;

  // A descriptor that becomes readable when something arrives, or -1: the context's wake-up descriptor tells.
  virtual int descriptor() const { return -1; }
  // True while a send or flush waits for room on that descriptor (then EPOLLOUT is of interest as well).
  virtual bool wants_room() const { return false; }
  // About to wait on descriptors only: arranges that the peer wakes this rank when it frees room that a send here
  // found lacking. Returns true when there is room or something to read already (do not sleep).
  virtual bool before_sleep() { return false; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  // Makes this rank's end of the lane to a peer. local_peer: the peer's index in the host's arena, -1 if elsewhere.
  // fd: the connected socket that Control has authenticated, for a transport that needs one. Throws Error.
  virtual std::unique_ptr<Endpoint> open(int peer, int local_peer, UniqueFd fd) = 0;
  // Whether open needs a connected socket.
  virtual bool needs_connection() const = 0;
  // Its way to the memory of the ranks that it joins, as long as the transport. Null: it has none.
  virtual RemoteMemory* remote_memory() { return nullptr; }
};

}  // namespace anello::transport
