#pragma once
// A device that this process uses, by its primary context, which is the one that CUDA's runtime uses.
#include "device/driver.h"

namespace anello::device {

class Device {
 public:
  // Retains its primary context the first time, until the process ends. Throws Error.
  static Device& of(int number);

  const kernels::cuda::Driver& driver() const { return driver_; }
  int number() const { return number_; }

  // The device's context is this thread's current one; afterwards the earlier one is again.
  class Use {
   public:
    explicit Use(const Device& device);  // throws Error
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const kernels::cuda::Driver& driver_;
  };

 private:
  Device(const kernels::cuda::Driver& driver, int number, void* context)
      : driver_(driver), number_(number), context_(context) {}

  const kernels::cuda::Driver& driver_;
  const int number_;
  void* const context_;
};

}  // namespace anello::device
