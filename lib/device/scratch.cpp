#include "device/scratch.h"

#include "base/unique_fd.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace anello::device {
namespace {

constexpr std::size_t kSmallest = 64 * 1024;

// Blocks that nobody uses, by device and size. They stay allocated: to free them would wait for the device.
struct Kept {
  std::mutex mutex;
  std::map<std::pair<Device*, std::size_t>, std::vector<std::byte*>> free;
};

// Never destroyed: when static objects are, the driver may have gone.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

}  // namespace

ScratchBlock ScratchBlock::take(Device& device, std::size_t bytes) {
  // Few sizes, so that a block fits later calls; at most an eighth is too much.
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, kSmallest);
  const std::size_t size = (std::max(bytes, std::size_t{1}) + step - 1) / step * step;
  {
    const std::lock_guard lock(kept().mutex);
    std::vector<std::byte*>& free = kept().free[{&device, size}];
    if (!free.empty()) {
      std::byte* const at = free.back();
      free.pop_back();
      return {device, at, size};
    }
  }
  const Device::Use use(device);
  std::uint64_t at = 0;
  check(device.driver(), "cuMemAlloc", device.driver().allocate(&at, size));
  return {device, reinterpret_cast<std::byte*>(at), size};
}

ScratchBlock::ScratchBlock(ScratchBlock&& other) noexcept
    : device_(other.device_), at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_) {}

ScratchBlock& ScratchBlock::operator=(ScratchBlock&& other) noexcept {
  if (this != &other) {
    give_back();
    device_ = other.device_;
    at_ = std::exchange(other.at_, nullptr);
    bytes_ = other.bytes_;
  }
  return *this;
}

void ScratchBlock::give_back() noexcept {
  std::byte* const at = std::exchange(at_, nullptr);
  if (at == nullptr || in_forked_child()) return;
  const std::lock_guard lock(kept().mutex);
  try {
    kept().free[{device_, bytes_}].push_back(at);
  } catch (const std::bad_alloc&) {
    // It stays as it is.
  }
}

}  // namespace anello::device
