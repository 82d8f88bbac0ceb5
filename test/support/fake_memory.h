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
  // Likewise: so many bytes behind the beginning of a page, as a device's small allocations may lie.
  void shift(std::size_t bytes) { shift_ = bytes; }
  // Likewise: whether an allocation has a handle for other processes.
  void has_handles(bool has) { has_handles_ = has; }

  // 0: there is none.
  std::uint64_t allocate(std::size_t bytes, int device);
  bool release(std::uint64_t address);
  std::size_t allocated() const;

  struct Range {
    std::uint64_t start = 0;  // 0: no allocation holds the address
    std::size_t bytes = 0;
    std::uint64_t reserved_start = 0;  // if it is mapped, what was reserved together; else the same
    std::size_t reserved_bytes = 0;
    int device = -1;
    std::uint64_t id = 0;  // never used again
    bool has_handle = false;
    bool can_be_passed = false;
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

  // Memory that is made, reserved for and mapped (fake_mapped.cpp). Physical memory lives as long as it is mapped or
  // has handles. 0: it cannot be done.
  std::uint64_t make(std::size_t bytes, int device, bool can_be_passed);
  bool release_handle(std::uint64_t handle);
  std::uint64_t reserve(std::size_t bytes);
  bool free_reserved(std::uint64_t address, std::size_t bytes);
  bool map(std::uint64_t address, std::size_t bytes, std::uint64_t handle);
  bool unmap(std::uint64_t address, std::size_t bytes);
  bool allow(std::uint64_t address, std::size_t bytes);
  // Of the memory that is mapped there.
  std::uint64_t handle_at(std::uint64_t address);
  // A descriptor of it, -1 if it cannot be passed; and from one.
  int pass(std::uint64_t handle) const;
  std::uint64_t take(int file);

  // A descriptor for whole pages of one allocation, at its first page's place; -1: there is none.
  int range_file(std::uint64_t address, std::size_t bytes) const;

  bool pin(void* address, std::size_t bytes);
  bool unpin(void* address);
  bool is_pinned(const void* address, std::size_t bytes) const;

 private:
  struct Allocation {
    std::size_t bytes = 0;
    std::size_t mapped = 0;  // 0: it is not guarded
    std::size_t shift = 0;   // where it begins in its pages
    unsigned char* real = nullptr;
    int device = 0;
    int file = -1;
    bool has_handle = false;
    std::uint64_t id = 0;
    Shared of;                 // of another process
    int times = 0;             // opened
    std::uint64_t handle = 0;  // of physical memory that is mapped
    bool allowed = true;       // its device may use it
  };
  struct Physical {
    int file = -1;
    std::size_t bytes = 0;
    int device = 0;
    bool can_be_passed = false;
    int uses = 0;  // mappings and handles
  };
  struct Reserved {
    std::size_t bytes = 0;
    unsigned char* real = nullptr;
  };
  void drop_use(std::map<std::uint64_t, Physical>::iterator physical);
  // 0: there is no memory. The file becomes the allocation's.
  std::uint64_t add_guarded(Allocation made, int file);
  static void give_back(std::uint64_t address, const Allocation& gone);

  mutable std::mutex mutex_;
  bool guarded_ = false;
  bool has_handles_ = true;
  std::size_t shift_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, std::size_t> pinned_;
  std::map<std::uint64_t, Physical> physical_;  // by handle
  std::map<std::uint64_t, Reserved> reserved_;
};

}  // namespace anello::testing
