#include "bootstrap/ended_ranks.h"

#include <atomic>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace anello::bootstrap {

// A file that could shrink would end a reader with SIGBUS, and another descriptor may have got that number.
std::shared_ptr<const EndedRanks> EndedRanks::of(int descriptor, int ranks) {
  if (descriptor < 0 || ranks < 2) return nullptr;
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  struct stat about {};
  const std::size_t bytes = sizeof kMark + static_cast<std::size_t>(ranks);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(descriptor, &about) != 0 ||
      static_cast<std::size_t>(about.st_size) != bytes) {
    return nullptr;
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return nullptr;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  std::shared_ptr<const EndedRanks> ended(new EndedRanks(static_cast<const std::byte*>(at), bytes));
  return std::memcmp(at, kMark, sizeof kMark) == 0 ? ended : nullptr;
}

EndedRanks::~EndedRanks() { ::munmap(const_cast<std::byte*>(at_), bytes_); }

bool EndedRanks::has(int rank) const {
  const std::size_t at = sizeof kMark + static_cast<std::size_t>(rank);
  if (rank < 0 || at >= bytes_) return false;
  return std::atomic_ref(const_cast<std::byte&>(at_[at])).load(std::memory_order_acquire) != std::byte{0};
}

}  // namespace anello::bootstrap
