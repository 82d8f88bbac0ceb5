#include "executor/board.h"

#include "transports/store_barrier.h"

#include <cstring>

namespace anello::executor {

using transport::BoardLine;

namespace {

constexpr std::uint32_t kFewLines = 8;

}  // namespace

Board::Board(const transport::Arena& arena, int index, std::vector<int> local, int rank, std::uint32_t first_number,
             bool crowded)
    : arena_(&arena), index_(index), rank_(rank), mask_(crowded ? transport::kBoardLines - 1 : kFewLines - 1), number_(first_number), seen_(first_number), local_(std::move(local)) {
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

// Lines of all exchanges before `end`.
Board::Seen Board::look_behind(std::uint32_t end) {
  for (; static_cast<std::int32_t>(seen_ - end) < 0; ++seen_, behind_ = 0) {
    for (; behind_ < int(slots_.size()); ++behind_) {
      if (behind_ == rank_) continue;
      if (!has_come(behind_, seen_)) return Seen::waiting;
      if (line_of(behind_, seen_).digest != own_[seen_ % own_.size()].digest) return Seen::mismatch;
    }
  }
  return Seen::complete;
}

std::optional<std::uint32_t> Board::disagreed() const {
  for (std::uint32_t number = seen_; number != number_; ++number) {
    for (int rank = 0; rank < int(slots_.size()); ++rank) {
      if (rank != rank_ && differs(rank, number)) return own_[number % own_.size()].sequence;
    }
  }
  return std::nullopt;
}

bool Board::differs(int rank) const {
  const std::uint32_t end = published_ ? number_ + 1 : number_;
  for (std::uint32_t number = seen_; number != end; ++number) {
    if (differs(rank, number)) return true;
  }
  return false;
}

void Board::publish(const std::byte* payload, std::size_t bytes, std::uint64_t digest, std::uint32_t sequence, int needs) {
  transport::BoardSlots& mine = *slots_[std::size_t(rank_)];
  BoardLine& line = mine.line[number_ & mask_];
  std::byte* const larger = mine.payload[number_ % transport::kBoardPayloads];
  if (bytes > 0) std::memcpy(bytes <= transport::kInlineBytes ? line.data : larger, payload, bytes);
  line.bytes = static_cast<std::uint32_t>(bytes);
  line.digest = digest;
  own_[number_ % own_.size()] = {digest, sequence};
  line.number.store(number_, std::memory_order_release);
  needs_ = needs;
  published_ = true;
  missing_ = 0;
  fence();
  for (std::size_t peer = 0; peer < local_.size(); ++peer) {
    if (int(peer) != rank_) arena_->wake_after_fence(local_[peer]);
  }
}

Board::Seen Board::look(std::uint64_t digest) {
  if (needs_ == kNobody) return Seen::complete;
  const int last = needs_ == kAll ? int(slots_.size()) - 1 : needs_;
  if (needs_ != kAll) missing_ = needs_;
  for (; missing_ <= last; ++missing_) {
    if (missing_ == rank_) continue;  // the others are loading it now
    if (!has_come(missing_, number_)) return Seen::waiting;
    if (line_of(missing_, number_).digest != digest) return Seen::mismatch;
  }
  return Seen::complete;
}

void Board::finish() {
  ++number_;
  if (needs_ == kAll) {
    seen_ = number_;
    behind_ = 0;
  }
  published_ = false;
}

bool Board::awaits(int rank) const {
  if (rank == rank_) return false;
  if (published_) return (needs_ == kAll || needs_ == rank) && !has_come(rank, number_);
  return seen_ != number_ && !has_come(rank, seen_);
}

const std::byte* Board::payload(int rank, std::size_t bytes) const {
  if (bytes <= transport::kInlineBytes) return line_of(rank, number_).data;
  return slots_[std::size_t(rank)]->payload[number_ % transport::kBoardPayloads];
}

}  // namespace anello::executor
