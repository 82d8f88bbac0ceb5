#pragma once
// Monotonic time. Anello never uses the wall clock for a decision.
#include <cstdint>

#include <time.h>

namespace anello {

inline constexpr std::int64_t kMs = 1'000'000;  // nanoseconds

inline std::int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The processor time of the calling thread. Time in which other threads ran does not count. It makes a system call.
inline std::int64_t worked_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// A point in time after which a wait has failed.
class Deadline {
 public:
  static Deadline in_ms(std::int64_t ms) { return Deadline(now_ns() + ms * 1'000'000); }
  bool passed() const { return now_ns() >= at_ns_; }
  std::int64_t left_ms() const {
    const std::int64_t left = (at_ns_ - now_ns()) / 1'000'000;
    return left > 0 ? left : 0;
  }
  std::int64_t at_ns() const { return at_ns_; }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace anello
