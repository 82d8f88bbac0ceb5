#pragma once
// The memory of the fake CUDA device, and the host memory that it has pinned. Where it is guarded, no code of the host
// can load or store at a device address: the device's own work goes through a second mapping of the same pages.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace anello::testing {

class FakeMemory {
 public:
  // Applies to what is allocated from now on.
  void guard() { guarded_ = true; }

  // 0: there is none.
  std::uint64_t allocate(std::size_t bytes);
  bool release(std::uint64_t address);
  std::size_t allocated() const;

  struct Range {
    std::uint64_t start = 0;  // 0: no allocation holds the address
    std::size_t bytes = 0;
  };
  Range find(std::uint64_t address) const;
  // Where the device's work finds it; null: no allocation covers all of it.
  void* real(const void* address, std::size_t bytes) const;

  bool pin(void* address, std::size_t bytes);
  bool unpin(void* address);
  bool is_pinned(const void* address, std::size_t bytes) const;

 private:
  struct Allocation {
    std::size_t bytes = 0;
    std::size_t mapped = 0;  // 0: it is not guarded
    unsigned char* real = nullptr;
  };

  mutable std::mutex mutex_;
  bool guarded_ = false;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, std::size_t> pinned_;
};

}  // namespace anello::testing
