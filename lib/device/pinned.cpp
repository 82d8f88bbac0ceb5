#include "device/pinned.h"

#include "base/error.h"
#include "base/unique_fd.h"
#include "device/driver.h"
#include "device/waiting_streams.h"
#include "memory/region.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

namespace anello::device {
namespace {

constexpr std::size_t kSmallest = 64 * 1024;
constexpr std::size_t kMostKept = std::size_t{1} << 30;

// Blocks that nobody uses, by the logarithm of their size.
struct Kept {
  std::mutex mutex;
  std::array<std::vector<std::byte*>, 64> by_size;
  std::size_t bytes = 0;
  std::vector<std::byte*> unused;  // still pinned, and for no call
};

// Never destroyed: when static objects are, the driver may have gone.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

void free_unused() {
  WaitingStreams::do_if_none([] {
    std::vector<std::byte*> unused;
    {
      const std::lock_guard lock(kept().mutex);
      unused.swap(kept().unused);
    }
    for (std::byte* const at : unused) {
      kernels::cuda::driver().unregister_host(at);
      memory::free_region(at);
    }
  });
}

std::byte* make(std::size_t bytes) {
  free_unused();
  const kernels::cuda::Driver& driver = kernels::cuda::driver();
  std::byte* const at = memory::make_region(bytes);
  const int code = driver.register_host(at, bytes, kernels::cuda::kPortable);
  if (code != 0) {
    memory::free_region(at);
    check(driver, "cuMemHostRegister", code);
  }
  return at;
}

// Not here: to unpin waits for all that the device does, and this may be a thread that ends calls of a device that
// hangs, or for which a stream waits.
void free_later(std::byte* at) noexcept {
  const std::lock_guard lock(kept().mutex);
  try {
    kept().unused.push_back(at);
  } catch (const std::bad_alloc&) {
    // It stays as it is.
  }
}

}  // namespace

PinnedBlock PinnedBlock::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    std::vector<std::byte*>& free = all.by_size[std::size_t(std::countr_zero(size))];
    if (!free.empty()) {
      std::byte* const at = free.back();
      free.pop_back();
      all.bytes -= size;
      return {at, size};
    }
  }
  return {make(size), size};
}

PinnedBlock::PinnedBlock(PinnedBlock&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  if (this != &other) {
    give_back();
    at_ = std::exchange(other.at_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void PinnedBlock::give_back() noexcept {
  std::byte* const at = std::exchange(at_, nullptr);
  if (at == nullptr || in_forked_child()) return;
  {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    if (all.bytes + bytes_ <= kMostKept || WaitingStreams::are_any()) {
      try {
        all.by_size[std::size_t(std::countr_zero(bytes_))].push_back(at);
        all.bytes += bytes_;
        return;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  free_later(at);
}

void PinnedBlock::retire(bool is_pending) noexcept {
  std::byte* const at = std::exchange(at_, nullptr);
  if (at != nullptr && !is_pending && !in_forked_child()) free_later(at);
}

std::size_t pinned_bytes_kept() {
  const std::lock_guard lock(kept().mutex);
  return kept().bytes;
}

}  // namespace anello::device
