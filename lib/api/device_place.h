#pragma once
// A device's memory as the place of gradients (gradient_sync/place.h). It lies with the C interface, because the
// synchronizer knows nothing but that.
#include "device/device.h"
#include "device/pinned.h"
#include "gradient_sync/place.h"

#include <cstdint>
#include <mutex>

namespace anello::api {

class DevicePlace final : public gradient_sync::Place {
 public:
  using Stream = gradient_sync::Stream;

  // has_kernels: moves may multiply, convert and check. Throws Error.
  DevicePlace(int number, bool has_kernels);
  ~DevicePlace() override;
  DevicePlace(const DevicePlace&) = delete;
  DevicePlace& operator=(const DevicePlace&) = delete;

  gradient_sync::Memory allocate(std::size_t bytes) override;
  void check(const void* address, std::size_t bytes, const std::string& what) override;
  void move(const gradient_sync::Move& move, Stream stream) override;
  void zero(void* at, std::size_t bytes, Stream stream) override;
  void copy(void* to, const void* from, std::size_t bytes, Stream stream) override;
  bool found() override;

  bool has_streams() const override { return true; }
  Stream own() override { return own_; }
  void follow(Stream later, Stream earlier) override;
  void set_mark(Stream stream) override;
  void follow_mark(Stream later) override;
  bool is_done(Stream stream) override;

 private:
  std::uint32_t* found_word() const { return reinterpret_cast<std::uint32_t*>(found_.data()); }
  void make();
  void destroy() noexcept;

  device::Device& device_;
  Stream own_ = nullptr;
  std::mutex joining_;  // guards the next
  void* joint_ = nullptr;
  void* mark_ = nullptr;
  device::PinnedBlock found_;      // a word that the device writes
  std::uint64_t found_there_ = 0;  // where the device finds it
};

}  // namespace anello::api
