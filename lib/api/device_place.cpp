#include "api/device_place.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "device/copies.h"
#include "device/driver.h"
#include "device/reductions.h"
#include "device/scratch.h"
#include "device/space.h"

#include <chrono>
#include <thread>

namespace anello::api {
namespace {

using gradient_sync::Memory, gradient_sync::Move;

template <class Address>
std::uint64_t number(Address* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

}  // namespace

DevicePlace::DevicePlace(int device, bool has_kernels) : device_(device::Device::of(device)) {
  if (has_kernels) {
    if (const std::string why = device_.why_no_kernels(); !why.empty()) throw Error(ANELLO_ERR_SYSTEM, why);
    const device::Device::Use use(device_);
    if (const Error wrong = device::reducer().prepare_moves()) throw wrong;
  }
  try {
    make();
  } catch (const Error&) {
    destroy();
    throw;
  }
}

void DevicePlace::make() {
  const kernels::cuda::Driver& driver = device_.driver();
  const device::Device::Use use(device_);
  constexpr unsigned kWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
  device::check(driver, "cuStreamCreate", driver.create_stream(&own_, kernels::cuda::kNonBlocking));
  device::check(driver, "cuEventCreate", driver.create_event(&joint_, kWithoutTime));
  device::check(driver, "cuEventCreate", driver.create_event(&mark_, kWithoutTime));
  found_ = device::PinnedBlock::take(sizeof *found_word());
  *found_word() = 0;
  device::check(driver, "cuMemHostGetDevicePointer", driver.device_address(&found_there_, found_word(), 0));
}

// A device that hangs may still write the word.
DevicePlace::~DevicePlace() {
  if (in_forked_child()) return;
  try {
    if (is_done(own_)) {
      destroy();
      return;
    }
  } catch (const Error&) {
    // The device has failed, or the driver has gone.
  }
  found_.retire(true);
}

void DevicePlace::destroy() noexcept {
  try {
    const kernels::cuda::Driver& driver = device_.driver();
    const device::Device::Use use(device_);
    if (mark_ != nullptr) driver.destroy_event(mark_);
    if (joint_ != nullptr) driver.destroy_event(joint_);
    if (own_ != nullptr) driver.destroy_stream(own_);
  } catch (const Error&) {
    // The driver has gone, and all of it with it.
  }
}

Memory DevicePlace::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto block = std::make_shared<device::ScratchBlock>(device::ScratchBlock::take(device_, bytes));
  zero(block->data(), bytes, own_);
  constexpr std::int64_t kMostWaitMs = 300'000;  // behind what computes there
  for (const Deadline limit = Deadline::in_ms(kMostWaitMs); !is_done(own_);) {
    if (limit.passed()) {
      block->abandon();
      throw Error(ANELLO_ERR_TIMEOUT, text("device ", device_.number(), " has not cleared ", bytes, " bytes for ",
                                           kMostWaitMs, " ms: something that it computes does not end"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::byte* const at = block->data();
  return {at, [this, block = std::move(block)](std::byte*) {
            try {
              if (!is_done(own_)) block->abandon();
            } catch (const Error&) {
              block->abandon();
            }
          }};
}

void DevicePlace::check(const void* address, std::size_t bytes, const std::string& what) {
  if (bytes == 0) return;
  if (!device::is_on_device(address)) {
    throw Error(ANELLO_ERR_ARGUMENT, text(what, " lies in host memory, but the config says device ", device_.number()));
  }
  int found = -1;
  try {
    found = device::space_of(address, bytes).device;
  } catch (const Error& error) {
    throw Error(error.code(), text(what, ' ', error.text()));
  }
  if (found != device_.number()) {
    throw Error(ANELLO_ERR_ARGUMENT,
                text(what, " lies on device ", found, ", but the config says device ", device_.number()));
  }
}

void DevicePlace::move(const Move& it, Stream stream) {
  const device::Device::Use use(device_);
  if (it.from_type == it.to_type && it.factor == 1 && !it.check) {
    if (it.from == it.to) return;
    device::check(
        device_.driver(), "cuMemcpyDtoDAsync",
        device_.driver().copy_on_device(number(it.to), number(it.from), it.count * dtype_bytes(it.from_type), stream));
    return;
  }
  kernels::CudaMove move{it.from_type, it.to_type, it.from, it.to, it.count, it.factor, it.residual, nullptr, stream};
  if (it.check) move.found = reinterpret_cast<std::uint32_t*>(found_there_);
  if (class_of(it.from_type) == kComplex) {
    move.from_type = move.to_type = it.from_type == ANELLO_COMPLEX64 ? ANELLO_FLOAT32 : ANELLO_FLOAT64;
    move.count *= 2;
  }
  if (const Error wrong = device::reducer().move(move)) throw wrong;
}

void DevicePlace::zero(void* at, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const device::Device::Use use(device_);
  device::check(device_.driver(), "cuMemsetD8Async", device_.driver().fill(number(at), 0, bytes, stream));
}

void DevicePlace::copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const device::Device::Use use(device_);
  const kernels::cuda::Driver& driver = device_.driver();
  auto* const into = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (!device::is_on_device(to)) return device::enqueue_to_host(driver, into, source, bytes, stream);
  if (!device::is_on_device(from)) return device::enqueue_to_device(driver, into, source, bytes, stream);
  device::check(driver, "cuMemcpyDtoDAsync", driver.copy_on_device(number(to), number(from), bytes, stream));
}

bool DevicePlace::found() { return __atomic_exchange_n(found_word(), 0, __ATOMIC_ACQUIRE) != 0; }

void DevicePlace::follow(Stream later, Stream earlier) {
  if (later == earlier) return;
  const kernels::cuda::Driver& driver = device_.driver();
  const device::Device::Use use(device_);
  const std::lock_guard lock(joining_);
  device::check(driver, "cuEventRecord", driver.record(joint_, earlier));
  device::check(driver, "cuStreamWaitEvent", driver.wait_in_stream(later, joint_, 0));
}

void DevicePlace::set_mark(Stream stream) {
  const device::Device::Use use(device_);
  device::check(device_.driver(), "cuEventRecord", device_.driver().record(mark_, stream));
}

void DevicePlace::follow_mark(Stream later) {
  const device::Device::Use use(device_);
  device::check(device_.driver(), "cuStreamWaitEvent", device_.driver().wait_in_stream(later, mark_, 0));
}

bool DevicePlace::is_done(Stream stream) {
  const device::Device::Use use(device_);
  const int code = device_.driver().stream_state(stream);
  if (code == kernels::cuda::kNotReady) return false;
  device::check(device_.driver(), "cuStreamQuery", code);
  return true;
}

}  // namespace anello::api
