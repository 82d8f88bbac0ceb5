#pragma once
// Memory of a device for what a call sets aside there. To allocate takes long, so blocks are kept for later calls.
#include "device/device.h"

#include <cstddef>

namespace anello::device {

class ScratchBlock {
 public:
  ScratchBlock() = default;
  // Of at least so many bytes; the contents are arbitrary. Throws Error.
  static ScratchBlock take(Device& device, std::size_t bytes);
  ~ScratchBlock() { give_back(); }
  ScratchBlock(ScratchBlock&& other) noexcept;
  ScratchBlock& operator=(ScratchBlock&& other) noexcept;

  std::byte* data() const { return at_; }
  std::size_t bytes() const { return at_ != nullptr ? bytes_ : 0; }

  // For later calls.
  void give_back() noexcept;
  // Not for later calls: a device that hangs may still use it.
  void abandon() noexcept { at_ = nullptr; }

 private:
  ScratchBlock(Device& device, std::byte* at, std::size_t bytes) : device_(&device), at_(at), bytes_(bytes) {}

  Device* device_ = nullptr;
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace anello::device
