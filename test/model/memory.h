#pragma once
// A buffer as a caller may have it: anywhere, with memory around it that nobody may touch.
#include "model/operands.h"

#include <algorithm>
#include <cstring>

namespace anello::model {

class Memory {
 public:
  enum class Place {
    ordinary,
    mapped,  // of anello_mem_alloc, where others of the host reach it
    device   // the program sees a copy of it
  };
  Memory(std::size_t bytes, int shift, Place place = Place::ordinary);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A pattern that repeats itself after 256 bytes, copied by memcpy: sanitizers look at each store of a loop, and one
  // rank would keep the others waiting beyond their deadline.
  void reset() {
    for (std::size_t i = 0; i < size_ && i < 256; ++i) all_[i] = static_cast<unsigned char>(0xa5 + 7 * i);
    for (std::size_t done = 256; done < size_; done *= 2) std::memcpy(all_ + done, all_, std::min(done, size_ - done));
  }
  unsigned char* data() { return all_ + begin(); }
  // What a call is given.
  unsigned char* address() { return (device_ != nullptr ? device_ : all_) + begin(); }
  // Of device memory: from the program's copy, and back to it.
  void put();
  void take() const;
  std::size_t bytes() const { return bytes_; }
  // All of it, the margins too.
  const unsigned char* all() const { return all_; }
  std::size_t size() const { return size_; }
  Bytes image() const { return Bytes(all_, all_ + size_); }
  std::size_t begin() const {
    // On 16 bytes, then shifted; memory is aligned itself.
    return kMargin + shift_;
  }

 private:
  static constexpr std::size_t kMargin = 64;
  std::size_t bytes_;
  std::size_t shift_;
  std::size_t size_;
  Bytes own_;
  void* region_ = nullptr;
  unsigned char* device_ = nullptr;
  unsigned char* all_ = nullptr;
};

// Byte of the buffer where the two differ first, counted from its begin; bytes [skip, skip_end) of it may.
struct Difference {
  bool any = false;
  std::ptrdiff_t at = 0;
};
inline Difference difference(const Memory& got, const Bytes& expected, std::size_t skip, std::size_t skip_end) {
  const unsigned char* const image = got.all();
  const auto compare = [&](std::size_t from, std::size_t to) -> Difference {
    if (from >= to || std::memcmp(image + from, expected.data() + from, to - from) == 0) return {};
    for (std::size_t i = from; i < to; ++i) {
      if (image[i] != expected[i]) return {true, std::ptrdiff_t(i) - std::ptrdiff_t(got.begin())};
    }
    return {};
  };
  if (skip >= skip_end) return compare(0, got.size());
  const Difference before = compare(0, got.begin() + skip);
  return before.any ? before : compare(got.begin() + skip_end, got.size());
}

}  // namespace anello::model
