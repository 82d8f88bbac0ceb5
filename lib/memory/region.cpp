#include "memory/region.h"

#include "base/available_memory.h"
#include "base/error.h"
#include "base/file_limit.h"
#include "base/text.h"
#include "memory/backing.h"
#include "memory/private_memory.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::memory {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Region {
  std::uint64_t identity = 0;
  UniqueFd memory;
  std::size_t bytes = 0;  // of whole pages
  RegionWish wish;
  bool registered = false;  // the caller's own memory
};

// Leaked: memory may be freed up to the last static destructor.
struct Table {
  std::mutex mutex;
  std::map<const std::byte*, Region> made;
  std::map<std::uint64_t, std::weak_ptr<RegionMapping>> mapped;
  std::atomic<std::uint64_t> version{1};
};
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

std::uint64_t fresh_identity() {
  std::uint64_t identity = 0;
  while (identity == 0) {
    if (::getrandom(&identity, sizeof identity, 0) != sizeof identity) throw system_error("getrandom", errno);
  }
  return identity;
}

UniqueFd sealed_memory(std::size_t bytes) {
  if (const std::string why = file_limit_forbids(bytes); !why.empty()) {
    throw Error(ANELLO_ERR_RESOURCE, text("shared memory of ", bytes, " bytes: ", why));
  }
  UniqueFd memory(::memfd_create("anello", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) throw Error(ANELLO_ERR_RESOURCE, system_text("memfd_create", errno));
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    throw Error(ANELLO_ERR_RESOURCE, text("shared memory of ", bytes, " bytes: ", system_text("ftruncate", errno)));
  }
  // Shrinking would make SIGBUS of others' next access.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw system_error("fcntl(F_ADD_SEALS)", errno);
  }
  return memory;
}

// Maps the memory somewhere, or at `place` over what is there. Null: no room.
std::byte* attach(int memory, std::size_t bytes, const RegionWish& wish, void* place) {
  void* const at =
      ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), memory, 0);
  if (at == MAP_FAILED) return nullptr;
  // Less than one would get one all the same.
  if (wish.huge_pages && bytes >= kHugePage) ::madvise(at, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<std::byte*>(at);
}

// Before its pages are there. Holds for the memory, wherever it is mapped.
void bind(std::byte* at, std::size_t bytes, int node) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[16] = {};
  if (node < 0 || std::size_t(node) >= kBits * std::size(nodes)) {
    throw Error(ANELLO_ERR_ARGUMENT, text("there is no NUMA node ", node));
  }
  nodes[std::size_t(node) / kBits] = 1ul << (std::size_t(node) % kBits);
  if (::syscall(SYS_mbind, at, bytes, MPOL_BIND, nodes, kBits * std::size(nodes), 0) == 0) return;
  if (errno == ENOSYS || errno == EPERM) return;  // this kernel, or container, leaves pages where they come
  throw Error(ANELLO_ERR_ARGUMENT, text("pages cannot be put on NUMA node ", node, ": ", system_text("mbind", errno)));
}

// For who must have other pages, wherever they are.
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
  return at <= found->second.bytes && bytes <= found->second.bytes - at ? found : all.made.end();
}

}  // namespace

std::byte* make_region(std::size_t bytes, const RegionWish& wish) {
  if (bytes == 0 || bytes > SIZE_MAX / 4) throw Error(ANELLO_ERR_ARGUMENT, text("memory of ", bytes, " bytes"));
  watch_forks();
  Region region;
  region.bytes = whole_pages(bytes);
  region.wish = wish;
  region.identity = fresh_identity();
  region.memory = sealed_memory(region.bytes);
  std::byte* const base = attach(region.memory.get(), region.bytes, wish, nullptr);
  if (base == nullptr)
    throw Error(ANELLO_ERR_RESOURCE, text("no room for ", bytes, " bytes: ", system_text("mmap", errno)));
  try {
    if (wish.numa_node >= 0) bind(base, region.bytes, wish.numa_node);
    if (!back_with_pages(region.memory.get(), 0, region.bytes, base, wish.numa_node)) {
      throw Error(ANELLO_ERR_RESOURCE,
                  text("the machine, the node or this process's group has no ", bytes, " bytes of memory left"));
    }
    Table& all = table();
    const std::lock_guard held(all.mutex);
    all.made.emplace(base, std::move(region));
    all.version.fetch_add(1, std::memory_order_release);
  } catch (...) {
    ::munmap(base, whole_pages(bytes));
    throw;
  }
  return base;
}

namespace {

// Out of the table and this process. Without a descriptor: no such region was made here.
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
  ::munmap(base, region.bytes);
  return region;
}

}  // namespace

bool free_region(void* base) {
  const Region region = take_out(base);
  if (!region.memory) return false;
  // A forked child had the mapping, but the pages are its parent's.
  if (!in_forked_child()) give_pages_back(region.memory.get(), 0, region.bytes);
  return true;
}

namespace {

// Pages with the same contents take the place of those at `place`, by a mapping that has them elsewhere.
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
  return base + before.bytes > begin;
}

}  // namespace

void register_region(void* address, std::size_t bytes) {
  auto* const place = static_cast<std::byte*>(address);
  if (reinterpret_cast<std::uintptr_t>(place) % kPage != 0 || bytes % kPage != 0) {
    throw Error(ANELLO_ERR_ARGUMENT, text("address and bytes (", bytes, ") must be multiples of the page size, ", kPage,
                                          ": take memory of aligned_alloc(", kPage, ", ..) or mmap"));
  }
  watch_forks();
  Table& all = table();
  const std::lock_guard held(all.mutex);
  if (overlaps(all.made, place, bytes)) {
    throw Error(ANELLO_ERR_ARGUMENT, "some of the memory is of anello_mem_alloc, or registered already");
  }
  if (const std::string why = why_not_private(place, bytes); !why.empty()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("the memory cannot be registered: ", why));
  }
  Region region;
  region.bytes = bytes;
  region.identity = fresh_identity();
  region.registered = true;
  region.memory = sealed_memory(bytes);
  if (!back_with_pages(region.memory.get(), 0, bytes)) {
    throw Error(ANELLO_ERR_RESOURCE,
                text("the machine or this process's group has no ", bytes, " bytes of memory left"));
  }
  std::byte* const copy = attach(region.memory.get(), bytes, {}, nullptr);
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
  void* const copy = ::mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    throw Error(ANELLO_ERR_RESOURCE, text("no room for ", region.bytes, " bytes: ", system_text("mmap", errno)));
  exchange_pages(place, static_cast<std::byte*>(copy), region.bytes);
  if (!in_forked_child()) give_pages_back(region.memory.get(), 0, region.bytes);
  all.made.erase(found);
  all.version.fetch_add(1, std::memory_order_release);
}

RegionSpot find_region(const void* address, std::size_t bytes) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, bytes);
  if (found == all.made.end()) return {};
  return {found->second.identity, static_cast<std::size_t>(static_cast<const std::byte*>(address) - found->first)};
}

std::uint64_t regions_version() { return table().version.load(std::memory_order_acquire); }

UniqueFd region_descriptor(std::uint64_t region) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  for (const auto& [base, each] : all.made) {
    if (each.identity == region) return UniqueFd(::fcntl(each.memory.get(), F_DUPFD_CLOEXEC, 0));
  }
  return {};
}

bool move_region(const void* address) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = holder(address, 1);
  if (found == all.made.end()) return false;
  Region& region = found->second;
  auto* const base = const_cast<std::byte*>(found->first);
  try {
    UniqueFd fresh = sealed_memory(region.bytes);
    std::byte* const copy = attach(fresh.get(), region.bytes, region.wish, nullptr);
    if (copy == nullptr) return false;
    const bool bound = bind_if_possible(copy, region.bytes, region.wish.numa_node);
    const bool backed = back_with_pages(fresh.get(), 0, region.bytes, copy, bound ? region.wish.numa_node : -1);
    if (backed) std::memcpy(copy, base, region.bytes);
    ::munmap(copy, region.bytes);
    if (!backed) return false;
    // Whoever has looked it up before asks again, and waits until it is moved.
    all.version.fetch_add(1, std::memory_order_release);
    if (attach(fresh.get(), region.bytes, region.wish, base) == nullptr) return false;
    // The old pages stay with those who have them mapped: other calls may still be reading what lay there.
    region.memory = std::move(fresh);
    region.identity = fresh_identity();
    all.version.fetch_add(1, std::memory_order_release);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// ---- Others' ----

std::shared_ptr<RegionMapping> RegionMapping::find(std::uint64_t region) {
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = all.mapped.find(region);
  return found == all.mapped.end() ? nullptr : found->second.lock();
}

std::shared_ptr<RegionMapping> RegionMapping::of(std::uint64_t region, UniqueFd memory) {
  if (auto known = find(region)) return known;
  struct stat about {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(memory.get(), &about) != 0 || about.st_size <= 0) {
    throw Error(ANELLO_ERR_CORRUPT, "the memory that was passed is not sealed against shrinking");
  }
  std::shared_ptr<RegionMapping> mapping(new RegionMapping);
  mapping->region_ = region;
  mapping->bytes_ = static_cast<std::size_t>(about.st_size);
  mapping->data_ = attach(memory.get(), mapping->bytes_, {}, nullptr);
  if (mapping->data_ == nullptr) {
    throw Error(ANELLO_ERR_RESOURCE, text("mapping ", mapping->bytes_, " bytes: ", system_text("mmap", errno)));
  }
  ::madvise(mapping->data_, mapping->bytes_, MADV_DONTFORK);
  populate(mapping->data_, mapping->bytes_);
  Table& all = table();
  const std::lock_guard held(all.mutex);
  std::weak_ptr<RegionMapping>& slot = all.mapped[region];
  if (auto other = slot.lock()) return other;  // another thread was first; this one goes
  slot = mapping;
  return mapping;
}

RegionMapping::~RegionMapping() {
  // In a forked child it was never there, and its address may hold something else by now.
  if (data_ == nullptr || in_forked_child()) return;
  Table& all = table();
  const std::lock_guard held(all.mutex);
  const auto found = all.mapped.find(region_);
  if (found != all.mapped.end() && found->second.expired()) all.mapped.erase(found);
  ::munmap(data_, bytes_);
}

}  // namespace anello::memory
