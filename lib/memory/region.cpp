#include "memory/region.h"

#include "base/available_memory.h"
#include "base/error.h"
#include "base/text.h"
#include "memory/backing.h"
#include "memory/private_memory.h"
#include "memory/region_users.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::memory {
namespace {

struct Region {
  std::uint64_t identity = 0;
  PoolRange range;
  RegionWish wish;
  bool registered = false;      // the caller's own memory
  int kept = 0;                 // number of times it is kept in place
  std::vector<PoolRange> left;  // ranges that it was moved away from

  std::size_t bytes() const { return range.bytes(); }
  void give_back() const {
    range.give_back();
    for (const PoolRange& each : left) each.give_back();
  }
};

// Leaked: memory may be freed up to the last static destructor.
struct Table {
  std::mutex mutex;
  std::map<const std::byte*, Region> made;
  std::atomic<std::uint64_t> version{1};
};
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

PoolRange take_range(std::size_t bytes, const RegionWish& wish) {
  return PoolRange::take(bytes, (wish.huge_pages && bytes >= kHugePage) || wish.numa_node >= 0);
}

// Maps the range anywhere, or at `place` over the old mapping. Null if there is no room.
std::byte* attach(const PoolRange& range, const RegionWish& wish, void* place = nullptr) {
  std::byte* const at = range.map(place);
  // A smaller region would get a whole huge page too.
  if (at != nullptr && wish.huge_pages && range.bytes() >= kHugePage)
    ::madvise(at, range.bytes() / kHugePage * kHugePage, MADV_HUGEPAGE);
  return at;
}

// Call before the pages exist. Holds for the memory, wherever it is mapped.
void bind(std::byte* at, std::size_t bytes, int node) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[16] = {};
  if (node < 0 || std::size_t(node) >= kBits * std::size(nodes)) {
    throw Error(ANELLO_ERR_ARGUMENT, text("there is no NUMA node ", node));
  }
  nodes[std::size_t(node) / kBits] = 1ul << (std::size_t(node) % kBits);
  if (::syscall(SYS_mbind, at, bytes, MPOL_BIND, nodes, kBits * std::size(nodes), 0) == 0) return;
  if (errno == ENOSYS || errno == EPERM) return;  // this kernel or container cannot place pages
  throw Error(ANELLO_ERR_ARGUMENT, text("pages cannot be put on NUMA node ", node, ": ", system_text("mbind", errno)));
}

// For callers that need new pages on any node.
bool bind_if_possible(std::byte* at, std::size_t bytes, int node) {
  if (node < 0 || available_memory_of_node(node) < bytes) return false;
  try {
    bind(at, bytes, node);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::map<const std::byte*, Region>::iterator holder(const void* address, std::size_t bytes) {
  Table& all = table();
  const auto* const begin = static_cast<const std::byte*>(address);
  auto found = all.made.upper_bound(begin);
  if (found == all.made.begin()) return all.made.end();
  --found;
  const auto at = static_cast<std::size_t>(begin - found->first);
  return at <= found->second.bytes() && bytes <= found->second.bytes() - at ? found : all.made.end();
}

}  // namespace

std::byte* make_region(std::size_t bytes, const RegionWish& wish) {
  if (bytes == 0 || bytes > SIZE_MAX / 4) throw Error(ANELLO_ERR_ARGUMENT, text("memory of ", bytes, " bytes"));
  Region region;
  region.wish = wish;
  region.identity = fresh_identity();
  const PoolRange range = region.range = take_range(whole_pages(bytes), wish);
  std::byte* const base = attach(range, wish);
  if (base == nullptr)
    throw Error(ANELLO_ERR_RESOURCE, text("no room for ", bytes, " bytes: ", system_text("mmap", errno)));
  try {
    if (wish.numa_node >= 0) bind(base, range.bytes(), wish.numa_node);
    if (!range.back(base, wish.numa_node)) {
      throw Error(ANELLO_ERR_RESOURCE,
                  text("the machine, the node or this process's group has no ", bytes, " bytes of memory left"));
    }
    Table& all = table();
    const std::lock_guard held(all.mutex);
    all.made.emplace(base, std::move(region));
    all.version.fetch_add(1, std::memory_order_release);
  } catch (...) {
    ::munmap(base, range.bytes());
    range.give_back();
    throw;
  }
  return base;
}

namespace {

// Takes a region out of the table and unmaps it. Returns one without a range if none was made here.
Region take_out(void* base) {
  Table& all = table();
  Region region;
  {
    const std::lock_guard held(all.mutex);
    const auto found = all.made.find(static_cast<const std::byte*>(base));
    if (found == all.made.end() || found->second.registered) return region;
    region = std::move(found->second);
    all.made.erase(found);
    all.version.fetch_add(1, std::memory_order_release);
  }
  ::munmap(base, region.bytes());
  return region;
}

}  // namespace

bool free_region(void* base) {
  const Region region = take_out(base);
  if (!region.range) return false;
  tell_region_users(region.identity);
  region.give_back();
  return true;
}

namespace {

// Replaces the pages at `place` by those mapped at `copy`, with the same contents.
void exchange_pages(std::byte* place, std::byte* copy, std::size_t bytes) {
  std::memcpy(copy, place, bytes);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
    const int cause = errno;
    ::munmap(copy, bytes);
    throw Error(ANELLO_ERR_RESOURCE, text("exchanging the pages of ", bytes, " bytes: ", system_text("mremap", cause)));
  }
}

bool overlaps(const std::map<const std::byte*, Region>& made, const std::byte* begin, std::size_t bytes) {
  const auto after = made.lower_bound(begin + bytes);
  if (after == made.begin()) return false;
  const auto& [base, before] = *std::prev(after);
  return base + before.bytes() > begin;
}

}  // namespace

void register_region(void* address, std::size_t bytes) {
  auto* const place = static_cast<std::byte*>(address);
  if (reinterpret_cast<std::uintptr_t>(place) % kPage != 0 || bytes % kPage != 0) {
    throw Error(ANELLO_ERR_ARGUMENT, text("address and bytes (", bytes, ") must be multiples of the page size, ", kPage,
                                          ": use memory from aligned_alloc(", kPage, ", ..) or mmap"));
  }
  Table& all = table();
  const std::lock_guard held(all.mutex);
  if (overlaps(all.made, place, bytes)) {
    throw Error(ANELLO_ERR_ARGUMENT, "some of the memory comes from anello_mem_alloc, or is registered already");
  }
  if (const std::string why = why_not_private(place, bytes); !why.empty()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("the memory cannot be registered: ", why));
  }
  Region region;
  region.identity = fresh_identity();
  region.registered = true;
  const PoolRange range = region.range = take_range(bytes, {});
  if (!range.back(nullptr)) {
    throw Error(ANELLO_ERR_RESOURCE,
                text("the machine or this process's group has no ", bytes, " bytes of memory left"));
  }
  try {
    std::byte* const copy = attach(range, {});
    if (copy == nullptr)
      throw Error(ANELLO_ERR_RESOURCE, text("no room for ", bytes, " bytes: ", system_text("mmap", errno)));
    populate(copy, bytes);
    const auto listed = all.made.emplace(place, std::move(region)).first;
    try {
      exchange_pages(place, copy, bytes);
    } catch (...) {
      all.made.erase(listed);
      throw;
    }
  } catch (...) {
    range.give_back();
    throw;
  }
  all.version.fetch_add(1, std::memory_order_release);
}

void deregister_region(void* address) {
  auto* const place = static_cast<std::byte*>(address);
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = all.made.find(place);
  if (found == all.made.end() || !found->second.registered) {
    throw Error(ANELLO_ERR_ARGUMENT, "no registered memory begins at this address");
  }
  const Region& region = found->second;
  const std::size_t bytes = region.bytes();
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    throw Error(ANELLO_ERR_RESOURCE, text("no room for ", bytes, " bytes: ", system_text("mmap", errno)));
  exchange_pages(place, static_cast<std::byte*>(copy), bytes);
  tell_region_users(region.identity);
  region.give_back();
  all.made.erase(found);
  all.version.fetch_add(1, std::memory_order_release);
}

RegionSpot find_region(const void* address, std::size_t bytes) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, bytes);
  if (found == all.made.end() || found->second.kept > 0) return {};
  return {found->second.identity, static_cast<std::size_t>(static_cast<const std::byte*>(address) - found->first)};
}

std::span<std::byte> memory_of_region(std::uint64_t region) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  for (const auto& [base, each] : all.made) {
    if (each.identity == region) return {const_cast<std::byte*>(base), each.bytes()};
  }
  return {};
}

std::uint64_t regions_version() { return table().version.load(std::memory_order_acquire); }

std::uint64_t fresh_identity() {
  std::uint64_t identity = 0;
  while (identity == 0) {
    if (::getrandom(&identity, sizeof identity, 0) != sizeof identity) throw system_error("getrandom", errno);
  }
  return identity;
}

namespace {
std::atomic<PassedRange (*)(std::uint64_t)> find_otherwise{nullptr};
}  // namespace

void also_pass(PassedRange (*find)(std::uint64_t identity)) { find_otherwise = find; }

PassedRange pass_region(std::uint64_t region) {
  {
    Table& all = table();
    const std::lock_guard held(all.mutex);
    for (const auto& [base, each] : all.made) {
      if (each.identity == region) return each.range.pass();
    }
  }
  PassedRange (*const find)(std::uint64_t) = find_otherwise;
  return find != nullptr ? find(region) : PassedRange{};
}

bool move_region(const void* address) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, 1);
  if (found == all.made.end() || found->second.kept > 0) return false;
  Region& region = found->second;
  auto* const base = const_cast<std::byte*>(found->first);
  const std::size_t bytes = region.bytes();
  try {
    const std::uint64_t identity = fresh_identity();
    region.left.reserve(region.left.size() + 1);
    PoolRange fresh = take_range(bytes, region.wish);
    std::byte* const copy = attach(fresh, region.wish);
    if (copy == nullptr) return false;
    const bool bound = bind_if_possible(copy, bytes, region.wish.numa_node);
    const bool backed = fresh.back(copy, bound ? region.wish.numa_node : -1);
    if (backed) std::memcpy(copy, base, bytes);
    ::munmap(copy, bytes);
    if (!backed) return false;
    // Threads that looked it up before ask again, and wait until it is moved.
    all.version.fetch_add(1, std::memory_order_release);
    if (attach(fresh, region.wish, base) == nullptr) {
      fresh.give_back();
      return false;
    }
    // The old pages stay with the processes that map them: other calls may still be reading the old contents.
    region.left.push_back(std::exchange(region.range, std::move(fresh)));
    tell_region_users(std::exchange(region.identity, identity));
    all.version.fetch_add(1, std::memory_order_release);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

RegionSpot keep_in_place(const void* address, std::size_t bytes) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, bytes);
  if (found == all.made.end()) return {};
  ++found->second.kept;
  all.version.fetch_add(1, std::memory_order_release);
  return {found->second.identity, static_cast<std::size_t>(static_cast<const std::byte*>(address) - found->first)};
}

void let_move(std::uint64_t region) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  for (auto& [base, each] : all.made) {
    if (each.identity != region || each.kept == 0) continue;
    --each.kept;
    all.version.fetch_add(1, std::memory_order_release);
    return;
  }
}

bool is_kept_in_place(const void* address) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, 1);
  return found != all.made.end() && found->second.kept > 0;
}

}  // namespace anello::memory
