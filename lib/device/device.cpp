#include "device/device.h"

#include <map>
#include <memory>
#include <mutex>

namespace anello::device {

Device& Device::of(int number) {
  // Never destroyed: when static objects are, the driver may have gone.
  static std::mutex& mutex = *new std::mutex;
  static auto& devices = *new std::map<int, std::unique_ptr<Device>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Device>& device = devices[number];
  if (device == nullptr) {
    const kernels::cuda::Driver& driver = kernels::cuda::driver();
    int handle = 0;
    void* context = nullptr;
    check(driver, "cuDeviceGet", driver.device(&handle, number));
    check(driver, "cuDevicePrimaryCtxRetain", driver.retain_context(&context, handle));
    device.reset(new Device(driver, number, context));
  }
  return *device;
}

Device::Use::Use(const Device& device) : driver_(device.driver_) {
  check(driver_, "cuCtxPushCurrent", driver_.push_context(device.context_));
}

Device::Use::~Use() {
  void* context = nullptr;
  driver_.pop_context(&context);
}

}  // namespace anello::device
