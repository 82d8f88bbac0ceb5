#pragma once
// A device that this process uses, by its primary context, which is the one that CUDA's runtime uses.
#include "device/driver.h"

#include <array>
#include <cstdint>

namespace anello::device {

class Device {
 public:
  // Retains its primary context the first time, until the process ends. Throws Error.
  static Device& of(int number);
  // Null: no device of this process has the number, or it cannot be used.

  const kernels::cuda::Driver& driver() const { return driver_; }
  int number() const { return number_; }
  void* context() const { return context_; }
  // The same in all processes of the host.
  using Uuid = std::array<unsigned char, 16>;
  const Uuid& uuid() const { return uuid_; }
  // Null: this process has no such device, or cannot use it.
  static const Device* of_uuid(const Uuid& uuid);
  // Whether kernels of several processes run at the same time, instead of in turns.
  bool runs_together() const { return attribute(kernels::cuda::kMps) != 0; }
  int attribute(int which) const;  // 0: the driver does not know it
  // Of the kernels that Anello has: "", or why it cannot run them.
  std::string why_no_kernels() const;
  // Whether its kernels can load and store memory of the other device; afterwards they may.
  bool reaches(const Device& other) const;

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
  Device(const kernels::cuda::Driver& driver, int number);

  const kernels::cuda::Driver& driver_;
  const int number_;
  int handle_ = 0;
  void* context_ = nullptr;
  Uuid uuid_{};
};

}  // namespace anello::device
