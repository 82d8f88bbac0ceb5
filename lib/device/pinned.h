#pragma once
// Host memory that devices copy to and from at their full rate, and that other processes of the host can map: a region
// (memory/region.h) whose pages are pinned. To pin memory takes milliseconds, so blocks are kept for later calls.
#include <cstddef>

namespace anello::device {

class PinnedBlock {
 public:
  PinnedBlock() = default;
  // Of at least so many bytes; the contents are arbitrary. Throws Error.
  static PinnedBlock take(std::size_t bytes);
  ~PinnedBlock() { give_back(); }
  PinnedBlock(PinnedBlock&& other) noexcept;
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;

  std::byte* data() const { return at_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return at_ != nullptr; }

  // For later calls.
  void give_back() noexcept;
  // Not for later calls: somebody may still store there, or its pages have been replaced (memory::move_region). It is
  // freed when more memory is pinned, if nothing of the device's is pending there; else it stays as it is for ever.
  void retire(bool is_pending) noexcept;

 private:
  PinnedBlock(std::byte* at, std::size_t bytes) : at_(at), bytes_(bytes) {}

  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

// Of all blocks that are kept for later calls.
std::size_t pinned_bytes_kept();

}  // namespace anello::device
