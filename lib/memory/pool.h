#pragma once
// The file behind all memory that this process makes for its host's others to map, whatever its ranks and jobs: a memfd
// without a name, sealed against shrinking, which grows. Each region (region.h) has a range of it. A range is given out
// once: a peer may still have an old one mapped, and one that was stopped may still store there. So a process has one
// descriptor for any number of regions. When the file is as long as it may be, a fresh pool takes over, and the old one
// stays as long as there are ranges of it. In a forked child it is the parent's, and nothing is taken or given back.
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::memory {

// A range as it goes from one process to another. Who has got it from others checks all of it.
struct PassedRange {
  UniqueFd file;  // empty: there is no such memory
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  explicit operator bool() const { return static_cast<bool>(file); }
};

class Pool;

class PoolRange {
 public:
  PoolRange() = default;  // of no bytes
  // Never given out before, of whole pages, and without any yet. apart: no huge page has parts of it and of the ranges
  // before it. Throws Error.
  static PoolRange take(std::size_t bytes, bool apart = false);

  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return pool_ != nullptr; }
  // Somewhere, or at `place` over what is there. Null: no room.
  std::byte* map(void* place = nullptr) const;
  // Backs it with pages, made through the mapping if there is one. False: no memory, and it has none.
  bool back(std::byte* mapped, int node = -1) const;
  void give_back() const;  // its pages, for all who have it mapped
  PassedRange pass() const;

 private:
  std::shared_ptr<const Pool> pool_;
  std::uint64_t offset_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anello::memory
