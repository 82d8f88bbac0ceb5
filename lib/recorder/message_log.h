#pragma once
// The last messages that a rank sent in a communicator, or received. One thread writes at a time; any may read.
#include "recorder/stay.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace anello::recorder {

struct MessageRecord {
  std::int32_t peer = -1;  // ANELLO_ANY_SOURCE while a receive does not know
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  // of a receive in flight: at most
};

class MessageLog {
 public:
  static constexpr std::uint64_t kKept = 64;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // A message that has been sent or received from start to end.
  void note(const MessageRecord& message) {
    const std::uint64_t number = noted_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    write(slots_[number % kSlots], message);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + message.bytes, std::memory_order_relaxed);
    noted_.store(number + 1, std::memory_order_release);
  }
  // One that has begun. Returns its number.
  std::uint64_t begin(const MessageRecord& message) {
    const std::uint64_t number = noted_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    stays_.begin(number);
    write(slots_[number % kSlots], message);
    noted_.store(number + 1, std::memory_order_release);
    return number;
  }
  void see(std::uint64_t number, std::int64_t now_ns) {
    if (is_kept(number)) stays_.see(number, now_ns);
  }
  // message: as it turned out to be.
  template <class Now>
  void end(std::uint64_t number, const MessageRecord& message, std::int32_t result, Now&& now_ns) {
    if (result == 0) bytes_.store(bytes_.load(std::memory_order_relaxed) + message.bytes, std::memory_order_relaxed);
    if (!is_kept(number)) return;
    write(slots_[number % kSlots], message);
    stays_.end(number, result, now_ns);
  }

  // ---- For readers ----
  std::uint64_t noted() const { return noted_.load(std::memory_order_acquire); }
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  struct Entry {
    MessageRecord message;
    std::optional<Ending> ending;  // none: it ended at once
  };
  // Nothing: the writer has overwritten it.
  std::optional<Entry> read(std::uint64_t number) const {
    const Slot& slot = slots_[number % kSlots];
    Entry entry;
    entry.message.peer = slot.peer.load(std::memory_order_relaxed);
    entry.message.tag = slot.tag.load(std::memory_order_relaxed);
    entry.message.bytes = slot.bytes.load(std::memory_order_relaxed);
    entry.ending = stays_.of(number);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (noted_.load(std::memory_order_relaxed) - number > kKept) return std::nullopt;
    return entry;
  }

 private:
  static constexpr std::uint64_t kSlots = 2 * kKept;
  struct Slot {
    std::atomic<std::int32_t> peer{-1};
    std::atomic<std::int32_t> tag{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  static void write(Slot& slot, const MessageRecord& message) {
    slot.peer.store(message.peer, std::memory_order_relaxed);
    slot.tag.store(message.tag, std::memory_order_relaxed);
    slot.bytes.store(message.bytes, std::memory_order_relaxed);
  }
  bool is_kept(std::uint64_t number) const { return noted_.load(std::memory_order_relaxed) - number <= kSlots; }

  std::array<Slot, kSlots> slots_{};
  Stays<kSlots> stays_;
  std::atomic<std::uint64_t> noted_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace anello::recorder
