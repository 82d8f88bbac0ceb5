#pragma once
// What a pointer of a caller's is: memory of which space, and in which region if it lies in one. That is found out here
// and nowhere else, once, where a call enters.
#include "memory/region.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::memory {

// Where a processor finds memory: the host's, or a device's own.
struct Space {
  enum class Kind : std::uint8_t { host, device };
  static constexpr std::size_t kKinds = 2;
  Kind kind = Kind::host;
  int device = -1;  // its number, of a device's
  bool operator==(const Space&) const = default;
};

struct Buffer {
  std::byte* at = nullptr;  // null: there is none
  std::size_t bytes = 0;
  Space space;
  RegionSpot spot;  // of host memory that others can map
};

// Finds it out, and remembers the last few answers. Requires the rank's lock.
class Buffers {
 public:
  Buffer find(const void* address, std::size_t bytes);

 private:
  struct Known {
    Buffer buffer;
    std::uint64_t version = 0;  // of the regions, when it was found
  };
  std::array<Known, 4> known_;
  std::size_t next_ = 0;
};

}  // namespace anello::memory
