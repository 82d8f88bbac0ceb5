#pragma once
// Buffers of the tests of calls in place: bytes of a device's memory that are known, and others around them.
#include "support/device_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace anello::test {

using Bytes = std::vector<unsigned char>;

inline Bytes random_bytes(std::size_t bytes, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed + 1));
  Bytes all(bytes);
  for (unsigned char& each : all) each = static_cast<unsigned char>(random() >> 8);
  return all;
}

class Buffer {
 public:
  // shift: of its address, in bytes.
  explicit Buffer(const Bytes& bytes, std::size_t shift = 0)
      : all_(bytes.size() + 2 * kAround + shift, 0xa5), from_(kAround + shift), at_(device_allocate(all_.size())) {
    put(bytes);
  }
  ~Buffer() { device_free(at_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return static_cast<unsigned char*>(at_) + from_; }
  void put(const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), all_.begin() + std::ptrdiff_t(from_));
    copy_to_device(at_, all_.data(), all_.size());
  }
  // Whether that is there, and nothing around it has changed.
  bool holds(const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), all_.begin() + std::ptrdiff_t(from_));
    Bytes there(all_.size());
    copy_to_host(there.data(), at_, there.size());
    return there == all_;
  }

 private:
  static constexpr std::size_t kAround = 64;
  Bytes all_;
  const std::size_t from_;
  void* const at_;
};

}  // namespace anello::test
