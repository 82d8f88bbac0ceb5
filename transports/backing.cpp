#include "transports/backing.h"

#include "base/available_memory.h"

#include <algorithm>

#include <fcntl.h>

namespace anello::transport {

bool back_with_pages(int file, std::uint64_t offset, std::size_t bytes) {
  // In pieces, because others may be doing the same.
  constexpr std::size_t kPiece = std::size_t{64} << 20, kReserve = std::size_t{256} << 20;
  if (available_memory() < bytes) return false;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const bool had = (bytes < kPiece || available_memory() > piece + kReserve) &&
                     ::fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0;
    if (!had) {
      give_pages_back(file, offset, bytes);
      return false;
    }
    done += piece;
  }
  return true;
}

void give_pages_back(int file, std::uint64_t offset, std::size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

}  // namespace anello::transport
