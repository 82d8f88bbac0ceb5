#pragma once
// Maps another process's region into this one's address space. Forked children do not inherit the mapping.
#include "memory/pool.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::memory {

class RegionMapping {
 public:
  // A process has one mapping of a region, however many of its ranks ask. The file is not kept. Throws Error if the
  // file is not sealed, does not have the range, or does not fit into the address space.
  static std::shared_ptr<RegionMapping> of(std::uint64_t region, PassedRange range);
  static std::shared_ptr<RegionMapping> find(std::uint64_t region);  // empty if it is not mapped here
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
