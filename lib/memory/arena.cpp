#include "memory/arena.h"

#include "base/bell.h"
#include "memory/backing.h"

#include <fcntl.h>

namespace anello::memory {

bool Arena::commit(std::size_t offset, std::size_t bytes) const {
  if (fd_ < 0) return true;
  return ::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

bool Arena::commit_ring(int from, int to) const {
  return commit(static_cast<std::size_t>(ring_base(from, to) - base_), layout_.ring_stride());
}

bool Arena::commit_board(int board) const {
  return commit(layout_.boards() + std::size_t(board) * layout_.board_stride(), layout_.board_stride());
}

void Arena::release_board(int board) const {
  if (fd_ >= 0)
    give_pages_back(fd_, layout_.boards() + std::size_t(board) * layout_.board_stride(), layout_.board_stride());
}

void Arena::release_board(int board, int rank) const {
  const auto at = static_cast<std::size_t>(reinterpret_cast<std::byte*>(&this->board(board, rank)) - base_);
  if (fd_ >= 0) give_pages_back(fd_, at, sizeof(BoardSlots));
}

void Arena::ring_bell(int rank) const {
  std::atomic<std::uint32_t>& sleeping = inbox(rank).sleeping;
  // The rank may have gone to sleep before it saw the publication: either it sees it now, or this thread sees that it
  // sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((sleeping.load(std::memory_order_relaxed) & Inbox::kAsleep) == 0) return;
  if ((sleeping.fetch_and(~Inbox::kAsleep, std::memory_order_acq_rel) & Inbox::kAsleep) == 0) return;
  anello::ring(wake_[rank]);
}

}  // namespace anello::memory
