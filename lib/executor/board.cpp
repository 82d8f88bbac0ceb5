#include "executor/board.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::executor {

using transport::BoardLine;

Board::Board(const transport::Arena& arena, int index, std::vector<int> local, int rank, std::uint32_t first_number)
    : arena_(&arena), index_(index), rank_(rank), number_(first_number), local_(std::move(local)) {
  for (const int member : local_) slots_.push_back(&arena.board(index, member));
}

void Board::publish(const std::byte* payload, std::size_t bytes, std::uint64_t digest) {
  transport::BoardSlots& mine = *slots_[std::size_t(rank_)];
  BoardLine& line = mine.line[number_ & 1];
  if (bytes > 0) std::memcpy(bytes <= transport::kInlineBytes ? line.data : mine.payload[number_ & 1], payload, bytes);
  line.bytes = static_cast<std::uint32_t>(bytes);
  line.digest = digest;
  line.number.store(number_, std::memory_order_release);
  missing_ = 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t peer = 0; peer < local_.size(); ++peer) {
    if (int(peer) != rank_) arena_->wake_after_fence(local_[peer]);
  }
}

Board::Seen Board::look(std::uint64_t digest) {
  for (; missing_ < int(slots_.size()); ++missing_) {
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

void fold(const Board& board, schedule::Collective collective, int rank, int size, std::byte* into,
          std::size_t count, std::size_t element_bytes, const kernels::Reducer* reducer) {
  using schedule::Collective;
  if (collective == Collective::barrier || count == 0) return;
  const std::size_t part = count * element_bytes;
  if (collective == Collective::allgather) {
    for (int peer = 0; peer < size; ++peer) std::memcpy(into + std::size_t(peer) * part, board.payload(peer, part), part);
    return;
  }
  // reduce_scatter: each line holds everybody's parts, of which this rank folds its own.
  const bool scatter = collective == Collective::reduce_scatter;
  const std::size_t line_bytes = scatter ? part * std::size_t(size) : part;
  const std::size_t skip = scatter ? std::size_t(rank) * part : 0;
  const auto line = [&](int peer) { return board.payload(peer, line_bytes) + skip; };
  if (size == 1) {
    if (reducer->finishes) {
      reducer->finish_in_type(into, line(0), count, size);
    } else {
      std::memcpy(into, line(0), part);
    }
    return;
  }
  if (!reducer->accumulates) {
    reducer->reduce(into, line(0), line(1), count);
    for (int peer = 2; peer < size; ++peer) reducer->reduce(into, into, line(peer), count);
    if (reducer->finishes) reducer->finish_in_type(into, into, count, size);
    return;
  }
  constexpr std::size_t kPiece = 512;
  alignas(64) std::array<std::byte, kPiece * 8> sum;
  for (std::size_t done = 0; done < count; done += kPiece) {
    const std::size_t n = std::min(kPiece, count - done);
    reducer->widen(sum.data(), line(0) + done * element_bytes, n);
    for (int peer = 1; peer < size; ++peer) reducer->accumulate(sum.data(), line(peer) + done * element_bytes, n);
    reducer->finish(into + done * element_bytes, sum.data(), n, size);
  }
}

}  // namespace anello::executor
