#pragma once
// Finds out which memory a caller's pointer refers to: its space, and its region if it lies in one. Only this file does
// it, once, where a call enters.
#include "memory/region.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::memory {

// Where memory lies: on the host, or on a device.
struct Space {
  enum class Kind : std::uint8_t { host, device };
  static constexpr std::size_t kKinds = 2;
  Kind kind = Kind::host;
  int device = -1;  // the device's number
  bool operator==(const Space&) const = default;
};

struct Buffer {
  std::byte* at = nullptr;  // null if there is none
  std::size_t bytes = 0;
  Space space;
  RegionSpot spot;  // set for host memory that others can map
};

// Finds buffers, and remembers the last few answers. Requires the rank's lock.
class Buffers {
 public:
  Buffer find(const void* address, std::size_t bytes);

 private:
  struct Known {
    Buffer buffer;
    std::uint64_t version = 0;  // regions_version() when it was found
  };
  std::array<Known, 4> known_;
  std::size_t next_ = 0;
};

}  // namespace anello::memory
