#pragma once
// An operation of a log that did not end at once. Only these know times: a rank that does not wait reads no clock.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace anello::recorder {

struct Ending {
  std::int64_t seen_ns = 0;   // when a thread that waited for it first read the clock; 0: not yet
  std::int64_t ended_ns = 0;  // 0: not known
  bool ended = false;
  std::int32_t result = 0;  // anello_result_t, if it has ended
};

// Of the last operations, by their number in the log. One thread writes at a time; any may read.
template <std::size_t Slots>
class Stays {
 public:
  void begin(std::uint64_t number) { slot(number, kInFlight); }
  // The first look counts.
  void see(std::uint64_t number, std::int64_t now_ns) {
    Stay& stay = stays_[number % Slots];
    if (stay.number.load(std::memory_order_relaxed) != number + 1) slot(number, kInFlight);
    if (stay.seen_ns.load(std::memory_order_relaxed) == 0) stay.seen_ns.store(now_ns, std::memory_order_relaxed);
  }
  template <class Now>
  void end(std::uint64_t number, std::int32_t result, Now&& now_ns) {
    Stay& stay = stays_[number % Slots];
    if (stay.number.load(std::memory_order_relaxed) != number + 1) return slot(number, std::uint32_t(result) + kEnded);
    if (stay.seen_ns.load(std::memory_order_relaxed) != 0) stay.ended_ns.store(now_ns(), std::memory_order_relaxed);
    stay.state.store(std::uint32_t(result) + kEnded, std::memory_order_release);
  }
  // Nothing: the operation ended at once, or is not known to have stayed.
  std::optional<Ending> of(std::uint64_t number) const {
    const Stay& stay = stays_[number % Slots];
    if (stay.number.load(std::memory_order_acquire) != number + 1) return std::nullopt;
    const std::uint32_t state = stay.state.load(std::memory_order_acquire);
    Ending ending{stay.seen_ns.load(std::memory_order_relaxed), stay.ended_ns.load(std::memory_order_relaxed)};
    ending.ended = state != kInFlight;
    ending.result = ending.ended ? std::int32_t(state - kEnded) : 0;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (stay.number.load(std::memory_order_relaxed) != number + 1) return std::nullopt;
    return ending;
  }

 private:
  static constexpr std::uint32_t kInFlight = 0, kEnded = 1;
  struct Stay {
    std::atomic<std::uint64_t> number{0};  // plus 1; 0: none, or being written
    std::atomic<std::int64_t> seen_ns{0};
    std::atomic<std::int64_t> ended_ns{0};
    std::atomic<std::uint32_t> state{kInFlight};
  };
  void slot(std::uint64_t number, std::uint32_t state) {
    Stay& stay = stays_[number % Slots];
    stay.number.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    stay.seen_ns.store(0, std::memory_order_relaxed);
    stay.ended_ns.store(0, std::memory_order_relaxed);
    stay.state.store(state, std::memory_order_relaxed);
    stay.number.store(number + 1, std::memory_order_release);
  }
  std::array<Stay, Slots> stays_{};
};

}  // namespace anello::recorder
