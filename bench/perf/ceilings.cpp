#include "perf/ceilings.h"

#include "perf/loopback.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 200ms;

double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// The best of several passes over more memory than the caches hold: the other passes were disturbed.
double measure_memcpy() {
  const std::size_t bytes = std::size_t{64} << 20;
  const std::vector<char> from(bytes, 1);
  std::vector<char> into(bytes, 2);
  double best = 0;
  const auto end = Clock::now() + kPatience;
  do {
    const auto begin = Clock::now();
    std::memcpy(into.data(), from.data(), bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    best = std::max(best, static_cast<double>(bytes) / nanoseconds(Clock::now() - begin));
  } while (Clock::now() < end);
  return best;
}

// Keeps the calling thread on the n-th of its allowed processors, and restores all of them at the end.
class Pin {
 public:
  Pin(const cpu_set_t& allowed, int n) : allowed_(allowed) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed) && n-- == 0) CPU_SET(cpu, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Pin() { sched_setaffinity(0, sizeof allowed_, &allowed_); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  cpu_set_t allowed_;
};

// Two threads pass one line back and forth; half a round is one way.
std::optional<double> measure_cache_line() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2) return std::nullopt;
  constexpr int kEnd = -1;
  constexpr int kRounds = 50;  // short enough to fall between two interruptions on a busy host
  alignas(64) std::atomic<int> line{0};
  // An odd value means the other thread's turn. Both threads sometimes yield the processor, because on a busy host they
  // would otherwise wait a whole time slice for each other.
  const auto wait_while = [&line](int value) {
    for (int spins = 1; line.load(std::memory_order_acquire) == value; ++spins) {
      if (spins % 4096 == 0) sched_yield();
    }
  };
  std::jthread other([&] {
    const Pin pin(set, 1);
    for (int turn = 1;; turn += 2) {
      wait_while(turn - 1);
      if (line.load(std::memory_order_acquire) == kEnd) return;
      line.store(turn + 1, std::memory_order_release);
    }
  });
  const Pin pin(set, 0);
  double best = 0;
  int turn = 0;
  const auto end = Clock::now() + kPatience;
  do {
    const auto begin = Clock::now();
    for (int i = 0; i < kRounds; ++i, turn += 2) {
      line.store(turn + 1, std::memory_order_release);
      wait_while(turn + 1);
    }
    const double once = nanoseconds(Clock::now() - begin) / kRounds / 2;
    best = best == 0 ? once : std::min(best, once);
  } while (Clock::now() < end);
  line.store(kEnd, std::memory_order_release);
  return best;
}

}  // namespace

Ceilings measure_ceilings(bool with_rdma) {
  Ceilings result;
  result.memcpy_gbps = measure_memcpy();
  result.cache_line_ns = measure_cache_line();
  if (!result.cache_line_ns) result.missing = "cache line: this process may use one processor only";
  try {
    const Loopback loopback = measure_loopback();
    result.loopback_latency_us = loopback.latency_us;
    result.loopback_gbps = loopback.gbps;
  } catch (const std::system_error& error) {
    result.missing += (result.missing.empty() ? "" : "; ") + std::string(error.what());
  }
  if (!with_rdma) return result;
  result.rdma = measure_rdma();
  if (!result.rdma->why_not.empty())
    result.missing += (result.missing.empty() ? "RDMA: " : "; RDMA: ") + result.rdma->why_not;
  return result;
}

}  // namespace perf
