// The buffers of a timing loop: from malloc, or from the library if it has its own allocator (allocate, deallocate).
#pragma once

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace compare {

inline void* malloced(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

template <typename Library>
class Memory final {
 public:
  Memory(Library& library, size_t bytes) : library_(library) {
    if constexpr (kOwn)
      address_ = library.allocate(bytes);
    else
      address_ = malloced(bytes);
    if (address_ == nullptr) throw std::runtime_error("out of memory");
    std::memset(address_, 0, bytes);
  }
  ~Memory() {
    if constexpr (kOwn)
      library_.deallocate(address_);
    else
      std::free(address_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* floats() const { return static_cast<float*>(address_); }

 private:
  static constexpr bool kOwn = requires(Library & library) { library.allocate(size_t{}); };

  Library& library_;
  void* address_ = nullptr;
};

}  // namespace compare
