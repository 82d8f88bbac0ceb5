#include "device/device.h"

#include "base/text.h"

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
  if (device == nullptr) device.reset(new Device(kernels::cuda::driver(), number));
  return *device;
}

const Device* Device::of_uuid(const Uuid& uuid) {
  const kernels::cuda::Driver& driver = kernels::cuda::driver();
  int count = 0;
  if (driver.device_count(&count) != 0) return nullptr;
  for (int number = 0; number < count; ++number) {
    int handle = 0;
    Uuid its{};
    if (driver.device(&handle, number) != 0 || driver.device_uuid(its.data(), handle) != 0 || its != uuid) continue;
    try {
      return &of(number);
    } catch (const Error&) {
      return nullptr;
    }
  }
  return nullptr;
}

Device::Device(const kernels::cuda::Driver& driver, int number) : driver_(driver), number_(number) {
  check(driver, "cuDeviceGet", driver.device(&handle_, number));
  check(driver, "cuDeviceGetUuid", driver.device_uuid(uuid_.data(), handle_));
  check(driver, "cuDevicePrimaryCtxRetain", driver.retain_context(&context_, handle_));
}

int Device::attribute(int which) const {
  int value = 0;
  return driver_.device_attribute(&value, which, handle_) == 0 ? value : 0;
}

std::string Device::why_no_kernels() const {
  constexpr int kOldest = 8;
  const int major = attribute(kernels::cuda::kCapabilityMajor), minor = attribute(kernels::cuda::kCapabilityMinor);
  if (major >= kOldest) return "";
  return text("device ", number_, " has compute capability ", major, ".", minor, ", and the kernels need ", kOldest,
              ".0");
}

bool Device::reaches(const Device& other) const {
  if (number_ == other.number_) return true;
  int can = 0;
  if (driver_.can_reach(&can, handle_, other.handle_) != 0 || can == 0) return false;
  const Use use(*this);
  const int code = driver_.reach(other.context_, 0);
  return code == 0 || code == kernels::cuda::kAlreadyReaches;
}

Device::Use::Use(const Device& device) : driver_(device.driver_) {
  check(driver_, "cuCtxPushCurrent", driver_.push_context(device.context_));
}

Device::Use::~Use() {
  void* context = nullptr;
  driver_.pop_context(&context);
}

}  // namespace anello::device
