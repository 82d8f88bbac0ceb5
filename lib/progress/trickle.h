#pragma once
// How fast the rest of a frame comes over sockets to a rank that waits for it. Over a link that is slow beside the
// processor a rank that looks all the time takes every packet by a call of its own, and keeps the processor from
// others; one that sleeps is awake long before the rest is here.
#include <cstddef>
#include <cstdint>

namespace anello::progress {

class Trickle {
 public:
  // A wait begins, or goes on. taken: bytes of payload that the rank has ever taken from its sockets.
  void waits(std::int64_t now_ns, std::uint64_t taken) {
    if (waits_) return;
    waits_ = true;
    since_ns_ = now_ns;
    taken_ = taken;
  }
  bool is_waiting() const { return waits_; }
  // The caller went away in the middle of it.
  void forget_wait() { waits_ = false; }
  // Something has moved; a wait goes on where that was only something to send.
  void came(std::int64_t now_ns, std::uint64_t taken) {
    if (taken == taken_) return;
    waits_ = false;
    ns_ += double(now_ns - since_ns_) - ns_ / kMemory;
    bytes_ += double(taken - taken_) - bytes_ / kMemory;
  }
  // Whether so much more will take longer than a sleeper takes to wake up, by what came lately.
  bool outlasts_sleep(std::size_t rest) const { return double(rest) * ns_ > kSleepNs * bytes_; }

 private:
  static constexpr double kMemory = 16;        // waits
  static constexpr double kSleepNs = 200'000;  // some times what waking up takes
  bool waits_ = false;
  std::int64_t since_ns_ = 0;
  std::uint64_t taken_ = 0;
  double ns_ = 0;  // of the last waits, and what came in them
  double bytes_ = 1;
};

}  // namespace anello::progress
