#include "device/space.h"

#include "base/text.h"
#include "device/driver.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>

#include <sys/uio.h>
#include <unistd.h>

namespace anello::device {
namespace {

using kernels::cuda::Driver;

struct Attributes {
  unsigned memory_type = 0;  // 0: the driver does not know the address
  unsigned is_managed = 0;
  int device = -1;
  std::uint64_t start = 0;
  std::size_t bytes = 0;

  bool is_on_device() const { return memory_type == kernels::cuda::kDeviceMemory && is_managed == 0; }
};

Attributes attributes_of(const Driver& driver, std::uint64_t address) {
  using namespace kernels::cuda;
  Attributes found;
  std::array<int, 5> names = {kMemoryType, kIsManaged, kDeviceOrdinal, kRangeStart, kRangeSize};
  std::array<void*, 5> into = {&found.memory_type, &found.is_managed, &found.device, &found.start, &found.bytes};
  const int code = driver.pointer_attributes(unsigned(names.size()), names.data(), into.data(), address);
  if (code != 0) return {};  // before a device is used, the driver knows no addresses
  return found;
}

// Allocations that calls have used, so that a buffer in one that has been freed is told from the host's.
class Seen {
 public:
  void add(std::uint64_t start, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (ranges_.size() >= kMost) ranges_.clear();
    ranges_[start] = bytes;
  }
  bool holds(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return false;
    const auto& [start, bytes] = *std::prev(next);
    return address < start + bytes;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> ranges_;
};

Seen& seen() {
  static Seen& ranges = *new Seen;
  return ranges;
}

bool is_readable(std::uint64_t address) {
  char byte = 0;
  const iovec into{&byte, 1};
  const iovec from{reinterpret_cast<void*>(address), 1};
  return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == 1;
}

// The host may have got the address meanwhile.
bool has_been_freed(const Attributes& attributes, std::uint64_t address) {
  return attributes.memory_type == 0 && seen().holds(address) && !is_readable(address);
}

}  // namespace

bool detail::look_whether_on_device(const void* address) {
  if (address == nullptr || address == ANELLO_IN_PLACE) return false;
  const Driver* const driver = driver_in_use();
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (driver != nullptr) {
    trusted_until.store(0, std::memory_order_relaxed);
    const Attributes found = attributes_of(*driver, at);
    return found.is_on_device() || has_been_freed(found, at);
  }
  trusted_until.store(processor_ticks() + kTrustedTicks, std::memory_order_relaxed);
  return false;
}

memory::Space space_of(const void* address, std::size_t bytes) {
  const Driver& driver = *driver_in_use();
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t end = begin + std::max(bytes, std::size_t{1});
  const Attributes first = attributes_of(driver, begin);
  if (has_been_freed(first, begin)) throw Error(ANELLO_ERR_ARGUMENT, "is in device memory that has been freed");
  // Memory that was reserved and mapped in parts has several ranges in a row (expandable segments).
  std::uint64_t at = begin;
  for (Attributes part = first; at < end; part = attributes_of(driver, at)) {
    if (!part.is_on_device() || part.device != first.device || part.start + part.bytes <= at) {
      throw Error(ANELLO_ERR_ARGUMENT,
                  text("needs ", bytes, " bytes of device memory, and its allocation ends after ", at - begin));
    }
    seen().add(part.start, part.bytes);
    at = part.start + part.bytes;
  }
  return {memory::Space::Kind::device, first.device};
}

}  // namespace anello::device
