#include "memory/extent.h"

#include "base/available_memory.h"
#include "base/unique_fd.h"
#include "memory/backing.h"

#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

namespace anello::memory {

ExtentMapping::ExtentMapping(ExtentMapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

ExtentMapping& ExtentMapping::operator=(ExtentMapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  return *this;
}

ExtentMapping::~ExtentMapping() {
  // A forked child never had the mapping, and something else may be at its address by now.
  if (base_ == nullptr || in_forked_child()) return;
  ::munmap(base_, mapped_);
}

Extent::Extent(const Arena& arena, std::uint64_t offset, std::size_t bytes)
    : fd_(arena.file()), offset_(offset), bytes_(bytes) {}

Extent Extent::reserve(const Arena& arena, std::size_t bytes) {
  if (!arena || arena.file() < 0 || bytes == 0 || bytes > SIZE_MAX / 4) return {};
  const std::size_t room = whole_pages(bytes);
  if (available_memory() < room) return {};
  // All ranks of the host can write this number, so it is checked: the range must fit into a file behind the arena.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61;
  std::atomic<std::uint64_t>& extents = arena.header().extents;
  std::uint64_t given = extents.load(std::memory_order_relaxed);
  do {
    if (given % kPage != 0 || given > kMost || room > kMost - given) return {};
  } while (!extents.compare_exchange_weak(given, given + room, std::memory_order_relaxed));
  const Extent extent(arena, arena.layout().bytes() + given, bytes);
  // The file must reach the range's end, or processes that map it get a SIGBUS.
  if (!back_with_pages(extent.fd_, extent.offset_ + room - kPage, kPage)) return {};
  return extent;
}

Extent Extent::of_peer(const Arena& arena, std::uint64_t offset, std::size_t bytes) {
  struct stat about {};
  if (!arena || arena.file() < 0 || bytes == 0 || offset < arena.layout().bytes()) return {};
  // The file never shrinks: a range that lies within it now can be touched.
  if (::fstat(arena.file(), &about) != 0) return {};
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (bytes > size || offset > size - bytes) return {};
  return {arena, offset, bytes};
}

ExtentMapping Extent::map() const {
  ExtentMapping mapping;
  if (offset_ == 0) return mapping;
  const std::uint64_t before = offset_ % kPage;
  const std::size_t room = whole_pages(before + bytes_);
  const auto from = static_cast<off_t>(offset_ - before);
  void* const at = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, from);
  if (at == MAP_FAILED) return mapping;
  ::madvise(at, room, MADV_DONTFORK);
  mapping.base_ = static_cast<std::byte*>(at);
  mapping.mapped_ = room;
  mapping.data_ = mapping.base_ + before;
  return mapping;
}

bool Extent::back(const ExtentMapping& mapping, std::size_t from, std::size_t bytes) const {
  return from <= bytes_ && bytes <= bytes_ - from && back_with_pages(fd_, offset_ + from, bytes, mapping.data() + from);
}

void Extent::give_back() const { give_back(0, whole_pages(bytes_)); }

void Extent::give_back(std::size_t from, std::size_t bytes) const {
  if (offset_ == 0) return;
  give_pages_back(fd_, offset_ + from, bytes);
}

}  // namespace anello::memory
