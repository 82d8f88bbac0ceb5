#pragma once
// A transport implements Endpoint, an ordered and reliable lane of frames between two ranks, and Transport, which opens
// lanes and may have remote memory beside them (remote_memory.h). Only the executor calls them, one thread at a time
// per context (the holder of its lock). Nothing here blocks, calls up, logs, or throws after open() has returned.
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
#include <utility>
#include <vector>

namespace anello::transport {

class RemoteMemory;  // remote_memory.h

inline constexpr std::size_t kMaxFrameBytes = 1024 * 1024;
// The best frame size for a long message on most lanes.
inline constexpr std::size_t kFrameBytes = 256 * 1024;

// Travels as it is, little-endian. Only the executor gives the fields other than `bytes` a meaning.
struct FrameHeader {
  std::uint32_t bytes = 0;  // of the payload that follows, at most kMaxFrameBytes
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
  // Offers a frame. True: the endpoint took all of it, and the payload belongs to the caller again. False: there is no
  // room for all of it. The endpoint may have taken a part; the caller repeats the same call (same header, same
  // payload) later, and offers nothing else before that returns true, unless it calls detach.
  virtual bool send(const FrameHeader& header, const std::byte* payload) = 0;
  // True between a send that took a part and the one that takes the rest.
  virtual bool mid_frame() const = 0;
  // The best frame size for a long message, at most kMaxFrameBytes.
  virtual std::size_t frame_bytes() const { return kFrameBytes; }
  // Releases the caller's payload in the middle of a frame: the endpoint copies the rest, and flush sends it, so an
  // aborted operation neither keeps its buffer nor breaks the lane for others. Nothing happens between frames.
  virtual void detach() = 0;
  // Sends bytes that the endpoint itself holds; true when it holds none. send returns false until then.
  virtual bool flush() = 0;
  // Bytes of taken frames that this end's system still holds, and may lose with the endpoint. 0 if nothing can be lost
  // any more, or everything is.
  virtual std::size_t on_the_way() { return 0; }

  // -- Receiving ----------------------------------------------------------------------------------------------
  // Returns the header of the arriving frame once the header is complete; nullptr before. It stays the same until all
  // of its payload has been consumed; the next call after that moves on. It never discards payload by itself.
  virtual const FrameHeader* incoming() = 0;
  // Bytes of the current frame's payload that are not consumed yet.
  virtual std::size_t remaining() const = 0;
  // Copies at most `bytes` arrived bytes of the rest to `into`. Returns the number of bytes copied; 0: none yet.
  virtual std::size_t receive(std::byte* into, std::size_t bytes) = 0;
  // Arrived bytes of the rest, in place, aligned for any type if all that was consumed before in this frame was a
  // multiple of 16. May be shorter than remaining(); empty: none yet. Valid until the next call on this endpoint.
  // consume() gives back its first bytes. Unless it ends the frame, a view has at least 16 bytes or is empty, so whole
  // elements always come through.
  virtual std::span<const std::byte> view() = 0;
  virtual void consume(std::size_t bytes) = 0;
  // Bytes that receive would copy now. May return fewer.
  virtual std::size_t arrived() { return view().size(); }

  // -- State ---------------------------------------------------------------------------------------------------
  // Any of the calls above sets this once, when the lane breaks; after that they do nothing. ANELLO_ERR_PEER_LOST: the
  // peer closed the lane. ANELLO_ERR_CORRUPT: arrived bytes cannot be right. Bytes from before are delivered first.
  virtual const Error* failure() const = 0;
  // After ANELLO_ERR_PEER_LOST: what broke the lane, if the peer has not closed it. Empty: it has.
  virtual std::string trouble() const { return {}; }

  // A descriptor that becomes readable when something arrives, or -1 if the context's wake-up descriptor does.
  virtual int descriptor() const { return -1; }
  // Whether only calls find what arrives while the rank is awake: the descriptor, if there is one, reports what arrives
  // after before_sleep.
  virtual bool must_be_polled() const { return descriptor() < 0; }
  // True while a send or flush waits for room on that descriptor (the caller then watches EPOLLOUT, too).
  virtual bool wants_room() const { return false; }
  // The caller is about to wait on descriptors only. Arranges that the peer wakes this rank when it frees room that a
  // send here lacked. Returns true if there is room or something to read already (do not sleep).
  virtual bool before_sleep() { return false; }
};

// The connected sockets of a lane: none, one, or one for each rail (Row::rails).
struct Connections {
  Connections() = default;
  Connections(UniqueFd one) { rails.push_back(std::move(one)); }
  Connections(std::vector<UniqueFd> several) : rails(std::move(several)) {}
  // The only one, or the first; empty if there is none.
  UniqueFd first() { return rails.empty() ? UniqueFd() : std::move(rails.front()); }
  std::vector<UniqueFd> rails;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  // Makes this rank's end of the lane to a peer. local_peer: the peer's index in the host's arena, -1 if elsewhere.
  // connections: those that Control has authenticated, for a transport that needs one. Throws Error.
  virtual std::unique_ptr<Endpoint> open(int peer, int local_peer, Connections connections) = 0;
  // Whether open needs a connected socket.
  virtual bool needs_connection() const = 0;
  // Reaches the memory of the ranks that the transport joins, and lives as long as the transport. Null if it has none.
  virtual RemoteMemory* remote_memory() { return nullptr; }
};

}  // namespace anello::transport
