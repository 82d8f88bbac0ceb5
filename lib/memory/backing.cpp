#include "memory/backing.h"

#include "base/available_memory.h"
#include "base/file_limit.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

namespace anello::memory {

std::byte* map_pages(int file, std::uint64_t offset, std::size_t bytes, void* place) {
  void* const mapped = ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0),
                              file, static_cast<off_t>(offset));
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

bool back_with_pages(int file, std::uint64_t offset, std::size_t bytes, std::byte* mapped, int node) {
  // Works in pieces, because other processes may be backing pages too.
  constexpr std::size_t kPiece = std::size_t{64} << 20, kReserve = std::size_t{256} << 20;
  const auto available = [node] {
    return node < 0 ? available_memory() : std::min(available_memory(), available_memory_of_node(node));
  };
  if (available() < bytes || !file_limit_forbids(offset + bytes).empty()) return false;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const bool room = bytes < kPiece || available() > piece + kReserve;
    // fallocate does not know a mapping's advice. It checks that all pages exist, and makes the missing ones.
    if (room && mapped != nullptr) populate(mapped + done, piece);
    if (!room || ::fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) != 0) {
      give_pages_back(file, offset, bytes);
      return false;
    }
    done += piece;
  }
  return true;
}

void populate(std::byte* at, std::size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which Debian 12's libc does not define
  ::madvise(at, bytes, kPopulateWrite);
}

void give_pages_back(int file, std::uint64_t offset, std::size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

}  // namespace anello::memory
