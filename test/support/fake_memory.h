#pragma once
// The memory of the fake CUDA devices, and the host memory that they have pinned. Where it is guarded, no code of the
// host can load or store at a device address: the device's own work goes through a second mapping of the same pages,
// and other processes can open it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace anello::testing {

class FakeMemory {
 public:
  // Applies to what is allocated from now on.
  void guard() { guarded_ = true; }
  // Likewise: whether an allocation has a handle for other processes.
  void has_handles(bool has) { has_handles_ = has; }

  // 0: there is none.
  std::uint64_t allocate(std::size_t bytes, int device);
  bool release(std::uint64_t address);
  std::size_t allocated() const;

  struct Range {
    std::uint64_t start = 0;  // 0: no allocation holds the address
    std::size_t bytes = 0;
    int device = -1;
    std::uint64_t id = 0;  // never used again
    bool has_handle = false;
  };
  Range find(std::uint64_t address) const;
  // Where the device's work finds it; null: no allocation covers all of it.
  void* real(const void* address, std::size_t bytes) const;

  // What a handle holds.
  struct Shared {
    std::uint32_t magic = 0;
    std::int32_t process = 0;
    std::int32_t file = -1;  // in that process
    std::int32_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t id = 0;
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
  };
  static_assert(sizeof(Shared) <= 64);
  // False: no allocation of this process with a handle holds the address.
  bool share(std::uint64_t address, Shared* shared) const;
  enum class Opened { yes, own, gone, overlaps, no_memory };
  // Opened again, it has the same address, and is closed as often.
  Opened open(const Shared& shared, std::uint64_t* address);
  bool close(std::uint64_t address);
  // Of other processes, that are open.
  std::size_t opened() const;

  bool pin(void* address, std::size_t bytes);
  bool unpin(void* address);
  bool is_pinned(const void* address, std::size_t bytes) const;

 private:
  struct Allocation {
    std::size_t bytes = 0;
    std::size_t mapped = 0;  // 0: it is not guarded
    unsigned char* real = nullptr;
    int device = 0;
    int file = -1;
    bool has_handle = false;
    std::uint64_t id = 0;
    Shared of;      // of another process
    int times = 0;  // opened
  };
  // 0: there is no memory. The file becomes the allocation's.
  std::uint64_t add_guarded(Allocation made, int file);
  static void unmap(std::uint64_t address, const Allocation& gone);

  mutable std::mutex mutex_;
  bool guarded_ = false;
  bool has_handles_ = true;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, std::size_t> pinned_;
};

}  // namespace anello::testing
