#pragma once
// Memory that this process has made for other processes of its host to map. Each region is a range of the process's
// pool (pool.h), backed with pages. Others get the pool's descriptor and the range over a Unix socket (control) and map
// the range (region_mapping.h). A process has one table for all its ranks and jobs.
#include "memory/pool.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace anello::memory {

// A place in a region. Identities are random and never used again.
struct RegionSpot {
  std::uint64_t region = 0;  // 0 if it lies in none
  std::size_t offset = 0;
  bool operator==(const RegionSpot&) const = default;
};

struct RegionWish {
  bool huge_pages = false;  // ask for transparent ones; may be ignored
  int numa_node = -1;       // where its pages must lie; -1 for any node
};

// Makes zeroed memory on a page boundary. Throws Error.
std::byte* make_region(std::size_t bytes, const RegionWish& wish = {});
// Takes the region's pages from all processes that map it. False if no region that was made here begins at base.
bool free_region(void* base);

// Makes the caller's memory a region by exchanging its pages, and gives it private pages again. Both throw Error.
void register_region(void* address, std::size_t bytes);
void deregister_region(void* address);

// Finds this process's region that holds the whole range; none if the region is kept in place.
RegionSpot find_region(const void* address, std::size_t bytes);
// All of the region's memory; empty if it is gone, or of another process.
std::span<std::byte> memory_of_region(std::uint64_t region);
// Grows with every region made, freed, moved or kept in place: until then an answer of find_region holds.
std::uint64_t regions_version();
// The region's memory, to be passed on; empty if the region is gone or was never here.
PassedRange pass_region(std::uint64_t region);
// Where pass_region looks for what is no region: memory that this process has otherwise made for others, under a fresh
// identity. Any thread may call it.
void also_pass(PassedRange (*find)(std::uint64_t identity));
std::uint64_t fresh_identity();

// Gives the region that holds the address other pages with the same contents at the same address, and another identity:
// a peer that was stopped in the middle of a store cannot reach it any more. Processes that map the old pages keep
// them, with the old contents, until the region is freed. False if there is no region or no memory, or if the region is
// kept in place.
bool move_region(const void* address);

// Lets others have pointers into the region that holds the whole range. Until let_move has been called as often, the
// region does not move, so find_region does not find it: calls treat it as memory in no region, into which peers store
// nothing by themselves. Requires: no call in flight uses it.
RegionSpot keep_in_place(const void* address, std::size_t bytes);
void let_move(std::uint64_t region);
bool is_kept_in_place(const void* address);

}  // namespace anello::memory
