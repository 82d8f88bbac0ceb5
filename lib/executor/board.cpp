#include "executor/board.h"

#include "transports/store_barrier.h"

#include <cstring>

namespace anello::executor {

using transport::BoardLine;

Board::Board(const transport::Arena& arena, int index, std::vector<int> local, int rank, std::uint32_t first_number)
    : arena_(&arena), index_(index), rank_(rank), number_(first_number), local_(std::move(local)) {
  for (const int member : local_) {
    slots_.push_back(&arena.board(index, member));
    fences_ = fences_ || arena.fences_for(member);
  }
  // What an earlier communicator on the same board left. Others look only once this rank has announced something.
  own().touching.store(0, std::memory_order_relaxed);
  own().stopped.store(0, std::memory_order_relaxed);
}

bool Board::begin_touching(std::uint32_t sequence) {
  // Either this store is seen by who stops, or his by this rank.
  own().touching.store(name_of(sequence), std::memory_order_release);
  fence();
  if (may_touch(sequence)) return true;
  end_touching();
  return false;
}

bool Board::may_touch(std::uint32_t sequence) const {
  for (const transport::BoardSlots* slots : slots_) {
    if (slots->touch.stopped.load(std::memory_order_acquire) == name_of(sequence)) return false;
  }
  return true;
}

void Board::end_touching() { own().touching.store(0, std::memory_order_release); }

void Board::stop(std::uint32_t sequence) {
  own().stopped.store(name_of(sequence), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!fences_) transport::store_barrier();
}

bool Board::is_touching(int rank, std::uint32_t sequence) const {
  return slots_[std::size_t(rank)]->touch.touching.load(std::memory_order_acquire) == name_of(sequence);
}

// Between a store and a look at what others store, who look at this one: they see to it, where all can.
void Board::fence() const {
  if (fences_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

void Board::publish(const std::byte* payload, std::size_t bytes, std::uint64_t digest) {
  transport::BoardSlots& mine = *slots_[std::size_t(rank_)];
  BoardLine& line = mine.line[number_ & 1];
  if (bytes > 0) std::memcpy(bytes <= transport::kInlineBytes ? line.data : mine.payload[number_ & 1], payload, bytes);
  line.bytes = static_cast<std::uint32_t>(bytes);
  line.digest = digest;
  line.number.store(number_, std::memory_order_release);
  missing_ = 0;
  fence();
  for (std::size_t peer = 0; peer < local_.size(); ++peer) {
    if (int(peer) != rank_) arena_->wake_after_fence(local_[peer]);
  }
}

Board::Seen Board::look(std::uint64_t digest) {
  for (; missing_ < int(slots_.size()); ++missing_) {
    if (missing_ == rank_) continue;  // the others are loading it now
    const BoardLine& line = slots_[std::size_t(missing_)]->line[number_ & 1];
    if (line.number.load(std::memory_order_acquire) != number_) return Seen::waiting;
    if (line.digest != digest) return Seen::mismatch;
  }
  return Seen::complete;
}

bool Board::has_come(int rank) const {
  return slots_[std::size_t(rank)]->line[number_ & 1].number.load(std::memory_order_acquire) == number_;
}

const std::byte* Board::payload(int rank, std::size_t bytes) const {
  const transport::BoardSlots& slots = *slots_[std::size_t(rank)];
  return bytes <= transport::kInlineBytes ? slots.line[number_ & 1].data : slots.payload[number_ & 1];
}

}  // namespace anello::executor
