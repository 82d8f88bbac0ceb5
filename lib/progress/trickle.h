#pragma once
// Estimates how fast the rest of a frame arrives over sockets at a waiting rank. Over a link that is slow relative to
// the processor, a rank that polls all the time reads every packet with a separate call and keeps the processor from
// others; a rank that sleeps wakes up long before the rest has arrived.
#include <cstddef>
#include <cstdint>

namespace anello::progress {

class Trickle {
 public:
  // A wait begins or continues. taken: all bytes of payload that the rank has read from its sockets.
  void waits(std::int64_t now_ns, std::uint64_t taken) {
    if (waits_) return;
    waits_ = true;
    since_ns_ = now_ns;
    taken_ = taken;
  }
  bool is_waiting() const { return waits_; }
  // The caller left in the middle of it.
  void forget_wait() { waits_ = false; }
  // Something has moved; a wait continues if it was only sent data.
  void came(std::int64_t now_ns, std::uint64_t taken) {
    if (taken == taken_) return;
    waits_ = false;
    ns_ += double(now_ns - since_ns_) - ns_ / kMemory;
    bytes_ += double(taken - taken_) - bytes_ / kMemory;
  }
  // Whether this many more bytes will take longer than a sleeper needs to wake up, according to the recent rate.
  bool outlasts_sleep(std::size_t rest) const { return double(rest) * ns_ > kSleepNs * bytes_; }

 private:
  static constexpr double kMemory = 16;        // waits
  static constexpr double kSleepNs = 200'000;  // several times the cost of a wake-up
  bool waits_ = false;
  std::int64_t since_ns_ = 0;
  std::uint64_t taken_ = 0;
  double ns_ = 0;  // the duration of the last waits, and the bytes that arrived in them
  double bytes_ = 1;
};

}  // namespace anello::progress
