#pragma once
// Memory that this process has made for its host's other processes to map: each region a range of the process's pool
// (pool.h), backed with pages. Others get the pool's descriptor and the range over a Unix socket (control) and map the
// range (region_mapping.h). One table per process, whatever its ranks and jobs.
#include "memory/pool.h"

#include <cstddef>
#include <cstdint>

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

// Which region of this process's own holds the whole range; none where that is kept in place.
RegionSpot find_region(const void* address, std::size_t bytes);
// Grows with every region made, freed, moved or kept in place: until then an answer of find_region holds.
std::uint64_t regions_version();
// Its memory, to be passed on; empty: it is gone, or was never here.
PassedRange pass_region(std::uint64_t region);

// Gives the region that holds the address other pages with the same contents, at the same place, and another identity:
// a peer that was stopped in the middle of a store into it cannot reach it any more. Those who have the old ones mapped
// keep them, and find what lay there until the region is freed. False: no region, or it is kept in place, or no memory.
bool move_region(const void* address);

// Others get pointers into the region that holds the whole range. Until let_move, as often as it was kept, it is not
// moved from under them, and so not found either: to calls it is as memory in no region is, into which peers store
// nothing by themselves. No call in flight uses it.
RegionSpot keep_in_place(const void* address, std::size_t bytes);
void let_move(std::uint64_t region);
bool is_kept_in_place(const void* address);

}  // namespace anello::memory
