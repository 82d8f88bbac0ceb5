#include "fake_memory.h"

#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

namespace anello::testing {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;

// Of the ranges that begin at the keys, the one that holds the address.
template <class Ranges>
auto holding(const Ranges& ranges, std::uint64_t address) {
  auto next = ranges.upper_bound(address);
  return next == ranges.begin() ? ranges.end() : --next;
}

}  // namespace

std::uint64_t FakeMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Allocation made;
  made.bytes = bytes;
  std::uint64_t address = 0;
  if (guarded_) {
    made.mapped = (bytes + kPage - 1) / kPage * kPage;
    const int file = memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(made.mapped)) != 0) return 0;
    void* const seen = mmap(nullptr, made.mapped, PROT_NONE, MAP_SHARED, file, 0);
    void* const real = mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (seen == MAP_FAILED || real == MAP_FAILED) return 0;
    made.real = static_cast<unsigned char*>(real);
    address = reinterpret_cast<std::uint64_t>(seen);
  } else {
    made.real =
        static_cast<unsigned char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    address = reinterpret_cast<std::uint64_t>(made.real);
  }
  allocations_[address] = made;
  return address;
}

bool FakeMemory::release(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const Allocation& gone = found->second;
  if (gone.mapped == 0) {
    std::free(gone.real);
  } else {
    munmap(gone.real, gone.mapped);
    munmap(reinterpret_cast<void*>(address), gone.mapped);
  }
  allocations_.erase(found);
  return true;
}

std::size_t FakeMemory::allocated() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [address, allocation] : allocations_) sum += allocation.bytes;
  return sum;
}

FakeMemory::Range FakeMemory::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto found = holding(allocations_, address);
  if (found == allocations_.end() || address >= found->first + found->second.bytes) return {};
  return {found->first, found->second.bytes};
}

void* FakeMemory::real(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const auto found = holding(allocations_, at);
  if (found == allocations_.end() || at + bytes > found->first + found->second.bytes) return nullptr;
  return found->second.real + (at - found->first);
}

bool FakeMemory::pin(void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return pinned_.emplace(reinterpret_cast<std::uint64_t>(address), bytes).second;
}

bool FakeMemory::unpin(void* address) {
  const std::lock_guard lock(mutex_);
  return pinned_.erase(reinterpret_cast<std::uint64_t>(address)) == 1;
}

bool FakeMemory::is_pinned(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const auto found = holding(pinned_, at);
  return found != pinned_.end() && at + bytes <= found->first + found->second;
}

}  // namespace anello::testing
