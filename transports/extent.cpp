#include "transports/extent.h"

#include "base/available_memory.h"
#include "base/unique_fd.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace anello::transport {
namespace {

constexpr std::size_t kPage = 4096;

// Backs a range with pages, which are then nobody else's. A memfd has no limit of its own: the kernel would rather kill processes
// than say no, so that this does, in pieces, because others may be doing the same.
bool commit(int file, std::uint64_t offset, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 20, kReserve = std::size_t{256} << 20;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const bool had = (bytes < kPiece || available_memory() > piece + kReserve) &&
                     ::fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0;
    if (!had) {
      ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
      return false;
    }
    done += piece;
  }
  return true;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

ExtentMapping::ExtentMapping(ExtentMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ExtentMapping& ExtentMapping::operator=(ExtentMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ExtentMapping::~ExtentMapping() {
  // In a forked child it was never there, and its address may hold something else by now.
  if (data_ != nullptr && !in_forked_child()) ::munmap(data_, bytes_);
}

Extent Extent::allocate(const Arena& arena, std::size_t bytes) {
  Extent extent;
  if (!arena || arena.file() < 0 || bytes == 0 || bytes > SIZE_MAX / 4) return extent;
  const std::size_t room = whole_pages(bytes);
  if (available_memory() < room) return extent;
  const std::uint64_t at = arena.layout().bytes() + arena.header().extents.fetch_add(room, std::memory_order_relaxed);
  if (!commit(arena.file(), at, room)) return extent;
  extent.fd_ = arena.file();
  extent.offset_ = at;
  extent.bytes_ = room;
  return extent;
}

Extent Extent::of_peer(const Arena& arena, std::uint64_t offset, std::size_t bytes) {
  Extent extent;
  struct stat about{};
  const std::size_t room = bytes > SIZE_MAX / 4 ? 0 : whole_pages(bytes);
  if (!arena || arena.file() < 0 || room == 0 || offset % kPage != 0 || offset < arena.layout().bytes()) return extent;
  // The file never shrinks: what lies within it now can be touched.
  if (::fstat(arena.file(), &about) != 0) return extent;
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (room > size || offset > size - room) return extent;
  extent.fd_ = arena.file();
  extent.offset_ = offset;
  extent.bytes_ = room;
  return extent;
}

ExtentMapping Extent::map() const {
  ExtentMapping mapping;
  if (offset_ == 0) return mapping;
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset_));
  if (at == MAP_FAILED) return mapping;
  ::madvise(at, bytes_, MADV_DONTFORK);
  mapping.data_ = static_cast<std::byte*>(at);
  mapping.bytes_ = bytes_;
  return mapping;
}

void Extent::give_back() const {
  if (offset_ == 0) return;
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_), static_cast<off_t>(bytes_));
}

}  // namespace anello::transport
