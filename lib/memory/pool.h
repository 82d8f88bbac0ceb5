#pragma once
// The file behind all memory that this process makes for others on its host to map, for all its ranks and jobs: a
// nameless memfd that is sealed against shrinking and grows. Each region (region.h) has a range of it. A range is given
// out once: a peer may still map an old one, and a stopped peer may still store there. So a process has one descriptor
// for any number of regions. When the file has its greatest length, a fresh pool takes over, and the old one stays
// while it has ranges. In a forked child the pool is the parent's, and the child takes and gives back nothing.
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::memory {

// A range as it goes from one process to another. The receiver checks all fields.
struct PassedRange {
  UniqueFd file;  // empty if there is no such memory
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  explicit operator bool() const { return static_cast<bool>(file); }
  // Empty if there are no descriptors left.
  PassedRange copy() const;
};

class Pool;

class PoolRange {
 public:
  PoolRange() = default;  // has no bytes
  // Takes a range of whole pages that was never given out before and has no pages yet. apart: it shares no huge page
  // with the ranges before it. Throws Error.
  static PoolRange take(std::size_t bytes, bool apart = false);

  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return pool_ != nullptr; }
  // Maps the range anywhere, or at `place` over the old mapping. Null if there is no room.
  std::byte* map(void* place = nullptr) const;
  // Backs the range with pages, made through the mapping if there is one. False if there is no memory; it then has
  // none.
  bool back(std::byte* mapped, int node = -1) const;
  void give_back() const;  // its pages, for all processes that map it
  PassedRange pass() const;

 private:
  std::shared_ptr<const Pool> pool_;
  std::uint64_t offset_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anello::memory
