#pragma once
// Floats in a device's memory.
#include "support/device_memory.h"

#include <cstddef>
#include <vector>

namespace anello::test {

class OnDevice {
 public:
  explicit OnDevice(std::size_t floats, float value = 0)
      : floats_(floats), at_(device_allocate(floats * sizeof(float))) {
    put(value);
  }
  ~OnDevice() {
    if (at_ != nullptr) device_free(at_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  float* data() const { return static_cast<float*>(at_); }
  std::size_t count() const { return floats_; }
  void put(float value) const {
    const std::vector<float> all(floats_, value);
    copy_to_device(at_, all.data(), floats_ * sizeof(float));
  }
  float at(std::size_t index) const {
    float value = 0;
    copy_to_host(&value, data() + index, sizeof value);
    return value;
  }
  void free() {
    device_free(at_);
    at_ = nullptr;
  }

 private:
  std::size_t floats_;
  void* at_;
};

}  // namespace anello::test
