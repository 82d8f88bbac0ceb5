#pragma once
// Regions that end with their scope, and their ranges and mappings as a peer has them.
#include "memory/region.h"
#include "memory/region_mapping.h"
#include "support/catch.h"

#include <cstddef>
#include <memory>

#include <sys/stat.h>

namespace anello::memory {

struct Made {
  explicit Made(std::size_t bytes, const RegionWish& wish = {}) : base(make_region(bytes, wish)) {}
  ~Made() { free_region(base); }
  std::byte* const base;
};

inline std::shared_ptr<RegionMapping> map_again(const std::byte* base) {
  const std::uint64_t region = find_region(base, 1).region;
  return RegionMapping::of(region, pass_region(region));
}

inline PassedRange pass(const std::byte* base) { return pass_region(find_region(base, 1).region); }

inline struct stat about(const PassedRange& range) {
  struct stat found {};
  REQUIRE(::fstat(range.file.get(), &found) == 0);
  return found;
}

inline std::size_t pages_in_bytes(const PassedRange& range) { return std::size_t(about(range).st_blocks) * 512; }
inline bool of_one_file(const PassedRange& one, const PassedRange& other) {
  return about(one).st_ino == about(other).st_ino;
}
inline bool overlap(const PassedRange& one, const PassedRange& other) {
  return of_one_file(one, other) && one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
}

}  // namespace anello::memory
