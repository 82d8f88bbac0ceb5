#pragma once
// Another process's region, in this one's address space. Not inherited by forked children.
#include "memory/pool.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::memory {

class RegionMapping {
 public:
  // One mapping a process, however many of its ranks ask. The file is not kept. Throws Error: it is no sealed memory,
  // or has no such range, or there is no room for it.
  static std::shared_ptr<RegionMapping> of(std::uint64_t region, PassedRange range);
  static std::shared_ptr<RegionMapping> find(std::uint64_t region);  // empty: not mapped here
  ~RegionMapping();
  RegionMapping(const RegionMapping&) = delete;
  RegionMapping& operator=(const RegionMapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  RegionMapping() = default;
  std::uint64_t region_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace anello::memory
