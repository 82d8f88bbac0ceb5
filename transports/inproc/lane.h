#pragma once
// One direction between two threads: a queue of frames. A small payload travels in the queue. A large one does not:
// its address travels, and the receiver reads the sender's memory.
//
// The sender may want that memory back (detach) while the receiver reads it. The receiver holds `gate` from a view to
// its consume; the sender holds it while it copies the rest into `spare` and changes the address. The receiver holds
// it no longer than it takes to reduce one piece, so detach is bounded.
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
  // Numbers of frames ever put in and taken out. A large frame is taken out when all of it has been consumed.
  alignas(128) std::atomic<std::uint64_t> put{0};
  alignas(128) std::atomic<std::uint64_t> taken{0};
  // For the large frame under way; there is at most one, the newest in the queue.
  alignas(128) std::atomic<bool> gate{false};
  std::atomic<const std::byte*> payload{nullptr};  // guarded by gate
  std::atomic<std::size_t> consumed{0};            // guarded by gate
  std::atomic<bool> sender_gone{false};

  std::unique_ptr<Queued[]> queue = std::make_unique_for_overwrite<Queued[]>(kQueue);
  std::unique_ptr<std::byte[]> spare = std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes);

  bool try_enter() { return !gate.exchange(true, std::memory_order_acquire); }
  void leave() { gate.store(false, std::memory_order_release); }
};

}  // namespace anello::transport
