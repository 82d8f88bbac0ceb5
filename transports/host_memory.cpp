#include "transports/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sched.h>

namespace anello::transport {

std::byte* HostMemory::map(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes,
                           std::shared_ptr<const void>* kept) {
  Way way;
  if (find_way(peer, at, bytes, &way) != 0 || way.mapped == nullptr) return nullptr;
  *kept = std::move(way.kept);
  return way.mapped;
}

int HostMemory::move(const Way& way, const Transfer& transfer, bool puts) {
  if (transfer.bytes == 0) return 0;
  if (way.mapped != nullptr) {
    std::memcpy(puts ? way.mapped : transfer.local, puts ? transfer.local : way.mapped, transfer.bytes);
    return 0;
  }
  if (puts) return ENOTSUP;  // a process stores only into memory that its peer shares with it
  return memory::read_process(*way.process, transfer.at.address, transfer.local, transfer.bytes);
}

int HostMemory::move_now(const Transfer& transfer, bool puts) {
  Way way;
  const int error = find_way(transfer.peer, transfer.at, transfer.bytes, &way);
  return error != 0 ? error : move(way, transfer, puts);
}

int HostMemory::get_now(const Transfer& transfer) { return move_now(transfer, false); }

int HostMemory::put_now(const Transfer& transfer) { return move_now(transfer, true); }

bool HostMemory::begin_work() {
  take_piece_in();
  // Another thread moves a piece, or the first transfer has ended and waits for poll().
  if (piece_.rest.bytes > 0 || moving_.empty() || moving_.front().rest.bytes == 0 || piece_error_ != 0) return false;
  piece_ = moving_.front();
  piece_.rest.bytes = std::min(piece_.rest.bytes, kPieceBytes);
  piece_way_ = {};
  piece_error_ = find_way(piece_.rest.peer, piece_.rest.at, piece_.rest.bytes, &piece_way_);
  if (piece_error_ != 0) {
    piece_.rest.bytes = 0;
    return false;
  }
  working_.store(true, std::memory_order_relaxed);
  return true;
}

void HostMemory::work() {
  piece_error_ = move(piece_way_, piece_.rest, piece_.puts);
  working_.store(false, std::memory_order_release);
}

// Credits the piece that work() has moved to its transfer.
void HostMemory::take_piece_in() {
  if (piece_.rest.bytes == 0 || working_.load(std::memory_order_acquire)) return;
  const std::size_t moved = std::exchange(piece_.rest.bytes, 0);
  piece_way_ = {};
  if (piece_error_ != 0) return;
  Transfer& rest = moving_.front().rest;
  rest.at.address += moved;
  rest.at.offset += moved;
  rest.local += moved;
  rest.bytes -= moved;
}

std::optional<Transferred> HostMemory::poll() {
  take_piece_in();
  if (moving_.empty() || piece_.rest.bytes > 0) return std::nullopt;
  const Transfer& first = moving_.front().rest;
  if (first.bytes > 0 && piece_error_ == 0) return std::nullopt;
  const Transferred ended{first.token, std::exchange(piece_error_, 0)};
  moving_.pop_front();
  return ended;
}

void HostMemory::withdraw(Token token) {
  const auto its =
      std::find_if(moving_.begin(), moving_.end(), [token](const Moving& each) { return each.rest.token == token; });
  if (its == moving_.end()) return;
  if (its == moving_.begin()) {
    while (working_.load(std::memory_order_acquire)) sched_yield();
    take_piece_in();
    piece_error_ = 0;
  }
  moving_.erase(its);
}

}  // namespace anello::transport
