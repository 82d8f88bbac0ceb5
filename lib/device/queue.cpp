#include "device/queue.h"

#include "base/unique_fd.h"
#include "device/copies.h"
#include "device/reductions.h"

namespace anello::device {
namespace {

template <class Address>
std::uint64_t number(Address* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

}  // namespace

Queue::Queue(Device& device, Order order) : device_(device) {
  const kernels::cuda::Driver& driver = device.driver();
  const Device::Use use(device);
  check(driver, "cuStreamCreate",
        driver.create_stream(&stream_, order == Order::alone ? kernels::cuda::kNonBlocking : 0));
  void* word = nullptr;
  int code = driver.allocate_pinned(&word, sizeof *word_, kernels::cuda::kPortable);
  const char* call = "cuMemHostAlloc";
  if (code == 0) {
    word_ = static_cast<std::uint32_t*>(word);
    *word_ = 0;
    call = "cuMemHostGetDevicePointer";
    code = driver.device_address(&word_there_, word, 0);
  }
  if (code == 0) return;
  if (word_ != nullptr) driver.release_pinned(word_);
  driver.destroy_stream(stream_);
  check(driver, call, code);
}

Queue::~Queue() {
  // A device that hangs may still write the word, and freeing that would wait for the device.
  if (in_forked_child() || !has_reached(last_)) return;
  try {
    const Device::Use use(device_);
    device_.driver().destroy_stream(stream_);
    device_.driver().release_pinned(word_);
  } catch (const Error&) {
    // The driver has gone, and all of it with it.
  }
}

void Queue::to_host(std::byte* into, const std::byte* from, std::size_t bytes) {
  const Device::Use use(device_);
  enqueue_to_host(device_.driver(), into, from, bytes, stream_);
}

void Queue::to_device(std::byte* into, const std::byte* from, std::size_t bytes) {
  const Device::Use use(device_);
  enqueue_to_device(device_.driver(), into, from, bytes, stream_);
}

void Queue::on_device(std::byte* into, const std::byte* from, std::size_t bytes) {
  const Device::Use use(device_);
  check(device_.driver(), "cuMemcpyDtoDAsync",
        device_.driver().copy_on_device(number(into), number(from), bytes, stream_));
}

void Queue::reduce(kernels::CudaReduction reduction) {
  reduction.stream = stream_;
  const Device::Use use(device_);
  if (const Error wrong = reducer().reduce(reduction)) throw wrong;
}

std::uint32_t Queue::mark() {
  const Device::Use use(device_);
  check(device_.driver(), "cuStreamWriteValue32", device_.driver().write_value(stream_, word_there_, last_ + 1, 0));
  return ++last_;
}

Error Queue::fault() const {
  const Device::Use use(device_);
  const int code = device_.driver().stream_state(stream_);
  return code == 0 || code == kernels::cuda::kNotReady
             ? Error()
             : kernels::cuda::driver_error(device_.driver(), "cuStreamQuery", code);
}

}  // namespace anello::device
