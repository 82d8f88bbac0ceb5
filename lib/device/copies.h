#pragma once
// Copies between a device and pinned host memory, on a stream of their own, and how far they are: behind a copy the
// stream writes a number to a word of host memory, which costs no call of the driver's to look at. The stream is
// ordered with the device's default stream, as cudaMemcpy is.
#include "base/error.h"
#include "device/device.h"

#include <cstddef>
#include <cstdint>

namespace anello::device {

class Copies {
 public:
  explicit Copies(Device& device);  // throws Error
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Enqueue. The bytes lie in device memory and in pinned memory, and stay as they are until the copy is done. Throw
  // Error.
  void to_host(std::byte* into, const std::byte* from, std::size_t bytes);
  void to_device(std::byte* into, const std::byte* from, std::size_t bytes);
  // A mark behind all that was enqueued so far. Throws Error.
  std::uint32_t mark();
  bool has_reached(std::uint32_t mark) const {
    return static_cast<std::int32_t>(__atomic_load_n(word_, __ATOMIC_ACQUIRE) - mark) >= 0;
  }
  // What is wrong with the device: its marks are then never reached.
  Error fault() const;

 private:
  Device& device_;
  void* stream_ = nullptr;
  std::uint32_t* word_ = nullptr;  // written by the device
  std::uint64_t word_there_ = 0;   // where the device finds it
  std::uint32_t last_ = 0;
};

}  // namespace anello::device
