#include "fake_memory.h"

#include <cstdlib>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::testing {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kMagic = 0xfa4e1bc1;

// Of the ranges that begin at the keys, the one that holds the address.
template <class Ranges>
auto holding(const Ranges& ranges, std::uint64_t address) {
  auto next = ranges.upper_bound(address);
  return next == ranges.begin() ? ranges.end() : --next;
}

}  // namespace

std::uint64_t FakeMemory::add_guarded(Allocation made, int file) {
  made.mapped = (made.shift + made.bytes + kPage - 1) / kPage * kPage;
  void* const seen = mmap(nullptr, made.mapped, PROT_NONE, MAP_SHARED, file, 0);
  void* const real = mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (seen == MAP_FAILED || real == MAP_FAILED) {
    ::close(file);
    return 0;
  }
  made.real = static_cast<unsigned char*>(real) + made.shift;
  made.file = file;
  const auto address = reinterpret_cast<std::uint64_t>(seen) + made.shift;
  allocations_[address] = made;
  return address;
}

void FakeMemory::give_back(std::uint64_t address, const Allocation& gone) {
  if (gone.mapped == 0) return std::free(gone.real);
  munmap(gone.real - gone.shift, gone.mapped);
  munmap(reinterpret_cast<void*>(address - gone.shift), gone.mapped);
  ::close(gone.file);
}

std::uint64_t FakeMemory::allocate(std::size_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  Allocation made;
  made.bytes = bytes;
  made.device = device;
  made.id = ++last_id_;
  if (guarded_) {
    made.has_handle = has_handles_ && shift_ == 0;
    made.shift = shift_;
    const int file = memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0) return 0;
    const std::size_t whole = (made.shift + bytes + kPage - 1) / kPage * kPage;
    if (ftruncate(file, static_cast<off_t>(whole)) == 0) return add_guarded(made, file);
    ::close(file);
    return 0;
  }
  made.real =
      static_cast<unsigned char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  const auto address = reinterpret_cast<std::uint64_t>(made.real);
  allocations_[address] = made;
  return address;
}

bool FakeMemory::release(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.times > 0 || found->second.handle != 0) return false;
  give_back(address, found->second);
  allocations_.erase(found);
  return true;
}

std::size_t FakeMemory::allocated() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [address, allocation] : allocations_) sum += allocation.times == 0 ? allocation.bytes : 0;
  return sum;
}

FakeMemory::Range FakeMemory::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto found = holding(allocations_, address);
  if (found == allocations_.end() || address >= found->first + found->second.bytes) return {};
  const Allocation& its = found->second;
  const auto physical = physical_.find(its.handle);
  const bool can_be_passed = physical != physical_.end() && physical->second.can_be_passed;
  auto together = std::pair(found->first, its.bytes);
  if (const auto range = holding(reserved_, address); range != reserved_.end()) {
    if (address < range->first + range->second.bytes) together = {range->first, range->second.bytes};
  }
  return {found->first, its.bytes, together.first, together.second, its.device, its.id, its.has_handle, can_be_passed};
}

void* FakeMemory::real(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const auto first = holding(allocations_, at);
  if (first == allocations_.end() || at >= first->first + first->second.bytes) return nullptr;
  unsigned char* const real = first->second.real + (at - first->first);
  // Mapped memory may go on in the next mapping.
  for (auto each = first; each != allocations_.end(); ++each) {
    const Allocation& its = each->second;
    if (!its.allowed || its.real != real + (each->first - at)) return nullptr;
    if (at + bytes <= each->first + its.bytes) return real;
    if (its.handle == 0 || std::next(each) == allocations_.end() || std::next(each)->first != each->first + its.bytes)
      return nullptr;
  }
  return nullptr;
}

bool FakeMemory::share(std::uint64_t address, Shared* shared) const {
  const std::lock_guard lock(mutex_);
  const auto found = holding(allocations_, address);
  if (found == allocations_.end() || address >= found->first + found->second.bytes) return false;
  const Allocation& its = found->second;
  struct stat status {};
  if (!its.has_handle || fstat(its.file, &status) != 0) return false;
  *shared = {kMagic, getpid(), its.file, its.device, status.st_ino, its.id, found->first, its.bytes};
  return true;
}

FakeMemory::Opened FakeMemory::open(const Shared& shared, std::uint64_t* address) {
  const std::lock_guard lock(mutex_);
  if (shared.magic != kMagic) return Opened::gone;
  if (shared.process == getpid()) return Opened::own;
  for (auto& [start, allocation] : allocations_) {
    if (allocation.times == 0 || allocation.of.process != shared.process) continue;
    if (allocation.of.id == shared.id) {
      ++allocation.times;
      *address = start;
      return Opened::yes;
    }
    // What is open there has been freed.
    const bool apart =
        allocation.of.start + allocation.of.bytes <= shared.start || shared.start + shared.bytes <= allocation.of.start;
    if (!apart) return Opened::overlaps;
  }
  const std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0 || status.st_ino != shared.inode) {
    if (file >= 0) ::close(file);
    return Opened::gone;
  }
  Allocation made;
  made.bytes = shared.bytes;
  made.device = shared.device;
  made.id = ++last_id_;
  made.of = shared;
  made.times = 1;
  *address = add_guarded(made, file);
  return *address != 0 ? Opened::yes : Opened::no_memory;
}

bool FakeMemory::close(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.times == 0) return false;
  if (--found->second.times > 0) return true;
  give_back(address, found->second);
  allocations_.erase(found);
  return true;
}

std::size_t FakeMemory::opened() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [address, allocation] : allocations_) count += allocation.times > 0 ? 1 : 0;
  return count;
}

int FakeMemory::range_file(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = holding(allocations_, address + kPage - 1);
  if (found == allocations_.end() || address != found->first - found->second.shift || bytes == 0) return -1;
  const Allocation& its = found->second;
  if (address % kPage != 0 || bytes % kPage != 0 || bytes > (its.handle != 0 ? its.bytes : its.mapped)) return -1;
  return fcntl(its.handle != 0 ? physical_.at(its.handle).file : its.file, F_DUPFD_CLOEXEC, 0);
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
