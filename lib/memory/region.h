#pragma once
// Memory that this process has made for its host's other processes to map: each region a memfd of its own, sealed
// against shrinking and backed with pages, without a name anywhere. Others get its descriptor over a Unix socket
// (control) and map it whole. One table per process, whatever its ranks and jobs.
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::memory {

// Where something lies in a region. Identities are random and never used again.
struct RegionSpot {
  std::uint64_t region = 0;  // 0: in none
  std::size_t offset = 0;
  bool operator==(const RegionSpot&) const = default;
};

struct RegionWish {
  bool huge_pages = false;  // ask for transparent ones; a wish
  int numa_node = -1;       // where its pages shall lie; -1: as they come
};

// Zeroed, on a page boundary. Throws Error.
std::byte* make_region(std::size_t bytes, const RegionWish& wish = {});
// Takes its pages from all who have it mapped. False: no region that was made here begins there.
bool free_region(void* base);

// Makes a region of memory that the caller has, by exchanging its pages; and gives it private pages again. Throw Error.
void register_region(void* address, std::size_t bytes);
void deregister_region(void* address);

// Which region of this process's own holds the whole range.
RegionSpot find_region(const void* address, std::size_t bytes);
// Grows with every region made, freed or moved: until then an answer of find_region holds.
std::uint64_t regions_version();
// A descriptor of its memory, to be passed on; empty: it is gone, or was never here.
UniqueFd region_descriptor(std::uint64_t region);

// Gives the region that holds the address other pages with the same contents, at the same place, and another identity:
// a peer that was stopped in the middle of a store into it cannot reach it any more. Those who have the old ones mapped
// keep them. False: no region, or no memory.
bool move_region(const void* address);

// Another process's region, in this one's address space. Not inherited by forked children.
class RegionMapping {
 public:
  // One mapping a process, however many of its ranks ask. Throws Error: it is no sealed memory, or there is no room for
  // it.
  static std::shared_ptr<RegionMapping> of(std::uint64_t region, UniqueFd memory);
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
