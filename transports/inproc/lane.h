#pragma once
// One direction between two threads: a queue of frames. A small payload travels in the queue; of a large one only its
// address does, and the receiver reads the sender's memory.
//
// The sender may want that memory back in the middle (detach) while the receiver looks at it. `gate` is held by the
// receiver from a view to its consume, and by the sender while it copies the rest into `spare` and turns the address
// there. The receiver holds it for no longer than a reduction of one piece takes, so detach is bounded.
#include "transports/transport.h"

#include <array>
#include <atomic>
#include <memory>

namespace anello::transport {

inline constexpr std::size_t kQueue = 32;
inline constexpr std::size_t kSmallBytes = 4096;

struct Queued {
  FrameHeader header;
  alignas(16) std::array<std::byte, kSmallBytes> small;
};

struct InprocLane {
  // Frames ever put in and taken out. A large frame is taken out when all of it was consumed.
  alignas(128) std::atomic<std::uint64_t> put{0};
  alignas(128) std::atomic<std::uint64_t> taken{0};
  // Of the large frame under way; there is one at most, and it is the newest in the queue.
  alignas(128) std::atomic<bool> gate{false};
  std::atomic<const std::byte*> payload{nullptr};  // behind the gate
  std::atomic<std::size_t> consumed{0};            // behind the gate
  std::atomic<bool> sender_gone{false};

  std::unique_ptr<Queued[]> queue = std::make_unique_for_overwrite<Queued[]>(kQueue);
  std::unique_ptr<std::byte[]> spare = std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes);

  bool try_enter() { return !gate.exchange(true, std::memory_order_acquire); }
  void leave() { gate.store(false, std::memory_order_release); }
};

}  // namespace anello::transport
