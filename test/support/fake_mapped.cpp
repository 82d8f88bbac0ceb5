// FakeMemory: memory that is made, reserved for and mapped. What is reserved has a twin, where the device's work finds
// what is mapped, in the same order.
#include "fake_memory.h"

#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::testing {
namespace {

constexpr char kName[] = "fake-device-";

void* nothing(void* at, std::size_t bytes) {
  const int fixed = at != nullptr ? MAP_FIXED : 0;
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

// The device that a file's name tells.
int device_of(int file) {
  char name[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (readlink(link.c_str(), name, sizeof name - 1) <= 0) return -1;
  const std::string text = name;
  const std::size_t at = text.find(kName);
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + sizeof kName - 1));
}

}  // namespace

std::uint64_t FakeMemory::make(std::size_t bytes, int device, bool can_be_passed) {
  const std::lock_guard lock(mutex_);
  const int file = memfd_create((kName + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return 0;
  physical_[++last_id_] = {file, bytes, device, can_be_passed, 1};
  return last_id_;
}

void FakeMemory::drop_use(std::map<std::uint64_t, Physical>::iterator physical) {
  if (--physical->second.uses > 0) return;
  ::close(physical->second.file);
  physical_.erase(physical);
}

bool FakeMemory::release_handle(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end()) return false;
  drop_use(found);
  return true;
}

std::uint64_t FakeMemory::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  void* const seen = nothing(nullptr, bytes);
  void* const real = nothing(nullptr, bytes);
  if (seen == MAP_FAILED || real == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<std::uint64_t>(seen);
  reserved_[address] = {bytes, static_cast<unsigned char*>(real)};
  return address;
}

bool FakeMemory::free_reserved(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reserved_.find(address);
  const auto mapped = allocations_.lower_bound(address);
  if (found == reserved_.end() || found->second.bytes != bytes) return false;
  if (mapped != allocations_.end() && mapped->first < address + bytes) return false;
  munmap(found->second.real, bytes);
  munmap(reinterpret_cast<void*>(address), bytes);
  reserved_.erase(found);
  return true;
}

bool FakeMemory::map(std::uint64_t address, std::size_t bytes, std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto physical = physical_.find(handle);
  auto range = reserved_.upper_bound(address);
  if (physical == physical_.end() || physical->second.bytes != bytes || range == reserved_.begin()) return false;
  --range;
  if (address + bytes > range->first + range->second.bytes) return false;
  unsigned char* const real = range->second.real + (address - range->first);
  if (mmap(real, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->second.file, 0) == MAP_FAILED)
    return false;
  Allocation made;
  made.bytes = bytes;
  made.real = real;
  made.device = physical->second.device;
  made.id = ++last_id_;
  made.handle = handle;
  made.allowed = false;
  ++physical->second.uses;
  return allocations_.emplace(address, made).second;
}

bool FakeMemory::unmap(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto each = allocations_.lower_bound(address); each != allocations_.end() && each->first < address + bytes;) {
    nothing(each->second.real, each->second.bytes);
    const auto physical = physical_.find(each->second.handle);
    if (physical == physical_.end()) return false;
    drop_use(physical);
    each = allocations_.erase(each);
    any = true;
  }
  return any;
}

bool FakeMemory::allow(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto each = allocations_.find(address);
  for (std::size_t done = 0; done < bytes; ++each) {
    if (each == allocations_.end() || each->first != address + done) return false;
    each->second.allowed = true;
    done += each->second.bytes;
  }
  return true;
}

std::uint64_t FakeMemory::handle_at(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.handle == 0) return 0;
  ++physical_.at(found->second.handle).uses;
  return found->second.handle;
}

int FakeMemory::pass(std::uint64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || !found->second.can_be_passed) return -1;
  return fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
}

std::uint64_t FakeMemory::take(int file) {
  const std::lock_guard lock(mutex_);
  struct stat status {};
  const int device = device_of(file);
  if (device < 0 || fstat(file, &status) != 0) return 0;
  physical_[++last_id_] = {fcntl(file, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(status.st_size), device, true, 1};
  return last_id_;
}

}  // namespace anello::testing
