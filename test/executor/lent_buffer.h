#pragma once
// A vector to sum, which peers' adapters reach or not.
#include "memory/region.h"

#include <cstddef>
#include <vector>

namespace anello::test {

inline constexpr std::size_t kCount = 700'000;  // elements. 2.8 MB: a block of two ranks is several pieces
inline constexpr std::size_t kChunk = 300'000;

// A buffer in a region, or in none.
class Buffer {
 public:
  explicit Buffer(bool in_region) : in_region_(in_region), plain_(in_region ? 0 : kCount) {
    if (in_region) region_ = memory::make_region(kCount * sizeof(float));
  }
  ~Buffer() {
    if (in_region_) memory::free_region(region_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() { return in_region_ ? reinterpret_cast<float*>(region_) : plain_.data(); }
  void fill(int rank, std::size_t count = kCount) {
    for (std::size_t i = 0; i < count; ++i) data()[i] = float((rank + 1) * int(i % 97 + 1));
  }
  std::size_t wrong_sums(int ranks, std::size_t count) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += data()[i] != float(ranks * (ranks + 1) / 2 * int(i % 97 + 1));
    return wrong;
  }

 private:
  const bool in_region_;
  std::vector<float> plain_;
  std::byte* region_ = nullptr;
};

}  // namespace anello::test
