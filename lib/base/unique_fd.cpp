#include "base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#include <pthread.h>
#include <unistd.h>

namespace anello {
namespace {

// One bit per descriptor number. It uses only relaxed atomics, because the fork handler may run while other threads are
// in any state. For descriptors above the table there is only close-on-exec, which covers every child except one that
// forks without exec from a process with more than 65,536 open files.
constexpr int kMaxFd = 65536;
std::atomic<std::uint64_t> open_descriptors[kMaxFd / 64];
std::atomic<bool> forked{false};

void close_in_child() {
  forked.store(true, std::memory_order_relaxed);
  for (int word = 0; word < kMaxFd / 64; ++word) {
    std::uint64_t bits = open_descriptors[word].exchange(0, std::memory_order_relaxed);
    while (bits != 0) {
      ::close(word * 64 + __builtin_ctzll(bits));
      bits &= bits - 1;
    }
  }
}

}  // namespace

void remember_descriptor(int fd) {
  if (fd < kMaxFd) open_descriptors[fd / 64].fetch_or(1ull << (fd % 64), std::memory_order_relaxed);
}

void forget_descriptor(int fd) {
  if (fd < kMaxFd) open_descriptors[fd / 64].fetch_and(~(1ull << (fd % 64)), std::memory_order_relaxed);
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, close_in_child); });
}

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

void UniqueFd::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  // In a forked child the handler has closed it, and the number may belong to another file by now.
  if (in_forked_child()) return;
  forget_descriptor(fd);
  ::close(fd);
}

}  // namespace anello
