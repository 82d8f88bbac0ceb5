#pragma once
// What a device does for a rank: copies and reductions, one after the other in a stream of their own, and how far they
// are. Behind them the stream writes a number to a word of host memory, which costs no call of the driver's to look at.
#include "base/error.h"
#include "device/device.h"
#include "kernels/reduce_cuda.h"

#include <cstddef>
#include <cstdint>

namespace anello::device {

class Queue {
 public:
  // with_default: in order with the device's default stream, as cudaMemcpy is.
  enum class Order { with_default, alone };
  Queue(Device& device, Order order);  // throws Error
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device& device() const { return device_; }

  // Enqueue. The bytes lie in memory that the device reaches and, of a copy from or to the host, in pinned memory, and
  // stay as they are until the mark behind is reached. Throw Error.
  void to_host(std::byte* into, const std::byte* from, std::size_t bytes);
  void to_device(std::byte* into, const std::byte* from, std::size_t bytes);
  void on_device(std::byte* into, const std::byte* from, std::size_t bytes);
  void reduce(kernels::CudaReduction reduction);
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
