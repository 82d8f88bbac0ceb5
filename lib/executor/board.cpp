#include "executor/board.h"

#include "base/store_barrier.h"

#include <algorithm>
#include <cstring>

namespace anello::executor {

namespace {

constexpr std::uint32_t kFewLines = 64;
static_assert(kFewLines * 2 <= memory::kBoardLines);

}  // namespace

Board::Board(const memory::Arena& arena, int index, const std::vector<int>& local, int rank, std::uint32_t first_number,
             bool crowded)
    : arena_(&arena),
      index_(index),
      rank_(rank),
      mask_(crowded ? memory::kBoardLines - 1 : kFewLines - 1),
      lines_apart_log2_(crowded ? 0 : 1),
      number_(first_number),
      seen_(first_number),
      crowded_(crowded) {
  for (const int member : local) {
    slots_.push_back(&arena.board(index, member));
    fences_ = fences_ || arena.fences_for(member);
    if (int(slots_.size()) - 1 != rank) {
      peers_.push_back({slots_.back(), &arena.inbox(member).sleeping, member, int(slots_.size()) - 1, first_number});
    }
  }
  // An earlier communicator on this board left these. Others look only once this rank has announced something.
  own().touching.store(0, std::memory_order_relaxed);
  own().stopped.store(0, std::memory_order_relaxed);
  own().allows_no_gets.store(0, std::memory_order_relaxed);
  own().failed.store(0, std::memory_order_relaxed);
  about_to_sleep();  // asleep for none of its exchanges
}

bool Board::begin_touching(std::uint32_t sequence) {
  // Either the rank that stops sees this store, or this rank sees the stop.
  own().touching.store(name_of(sequence), std::memory_order_release);
  fence();
  if (may_touch(sequence)) return true;
  end_touching();
  return false;
}

bool Board::may_touch(std::uint32_t sequence) const {
  for (const memory::BoardSlots* slots : slots_) {
    if (slots->touch.stopped.load(std::memory_order_acquire) == name_of(sequence)) return false;
  }
  return true;
}

void Board::end_touching() { own().touching.store(0, std::memory_order_release); }

void Board::stop(std::uint32_t sequence) {
  own().stopped.store(name_of(sequence), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!fences_) store_barrier_for_sure();
}

bool Board::is_touching(int rank, std::uint32_t sequence) const {
  return slots_[std::size_t(rank)]->touch.touching.load(std::memory_order_acquire) == name_of(sequence);
}

// No rank waits: a copy of bytes that change meanwhile does no harm if its reader then discards it.
void Board::stop_gets_of_peers() {
  own().allows_no_gets.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Board::allows_gets(int rank) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return slots_[std::size_t(rank)]->touch.allows_no_gets.load(std::memory_order_relaxed) == 0;
}

void Board::publish_failure(std::uint64_t id, Failed how) {
  own().failed_id.store(id, std::memory_order_relaxed);
  own().failed_first_hand.store(how.first_hand ? 1 : 0, std::memory_order_relaxed);
  own().failed.store(static_cast<std::uint64_t>(how.code), std::memory_order_release);
}

Board::Failed Board::failed(int rank, std::uint64_t id) const {
  const memory::BoardTouch& its = slots_[std::size_t(rank)]->touch;
  const std::uint64_t code = its.failed.load(std::memory_order_acquire);
  if (its.failed_id.load(std::memory_order_relaxed) != id) return {};
  // Any process that maps the board can write there.
  const bool is_error = code <= ANELLO_ERR_INTERNAL;
  return {is_error ? static_cast<anello_result_t>(code) : ANELLO_ERR_CORRUPT,
          its.failed_first_hand.load(std::memory_order_relaxed) != 0};
}

// Compares the lines of all exchanges before `end`.
Board::Seen Board::check_lines_behind(std::uint32_t end) {
  for (; static_cast<std::int32_t>(seen_ - end) < 0; ++seen_, behind_ = 0) {
    for (; behind_ < int(slots_.size()); ++behind_) {
      if (behind_ == rank_) continue;
      if (!has_come(behind_, seen_)) return Seen::waiting;
      if (!agrees(line_of(behind_, seen_), seen_)) return Seen::mismatch;
    }
  }
  return Seen::complete;
}

// A rank's lines come in order, so this compares only lines that have come since the last look.
std::optional<Board::Disagreed> Board::disagreed() {
  const std::uint32_t behind = number_ - seen_;
  std::uint32_t first = behind;  // counted from seen_
  int rank = -1;
  for (Peer& peer : peers_) {
    if (peer.compared - seen_ > behind) peer.compared = seen_;
    while (peer.compared != number_ && has_come(peer.rank, peer.compared) && !differs(peer.rank, peer.compared))
      ++peer.compared;
    if (peer.compared != number_ && peer.compared - seen_ < first && differs(peer.rank, peer.compared)) {
      first = peer.compared - seen_;
      rank = peer.rank;
    }
  }
  if (first == behind) return std::nullopt;
  return Disagreed{own_[(seen_ + first) % own_.size()].sequence, rank};
}

bool Board::differs(int rank) const {
  const std::uint32_t end = published_ ? number_ + 1 : number_;
  for (std::uint32_t number = seen_; number != end; ++number) {
    if (differs(rank, number)) return true;
  }
  return false;
}

bool Board::awaits_elsewhere() const {
  if (!crowded_ || !published_ || needs_ == kNobody) return false;
  const auto here = static_cast<std::uint8_t>(::sched_getcpu());
  const auto has_come_or_is_elsewhere = [&](const memory::BoardSlots& slots) {
    const bool come = slots.line[place_of(number_)].number.load(std::memory_order_relaxed) == number_;
    return come || slots.line[place_of(number_ - 1)].processor.load(std::memory_order_relaxed) != here;
  };
  if (needs_ >= 0) return has_come_or_is_elsewhere(*slots_[std::size_t(needs_)]);
  return std::all_of(peers_.begin() + std::ptrdiff_t(missing_), peers_.end(),
                     [&](const Peer& peer) { return has_come_or_is_elsewhere(*peer.slots); });
}

void Board::about_to_sleep() {
  // Far from any number that a rank writes in the meantime: every line wakes this rank.
  constexpr std::uint32_t kAnyLine = 1u << 31;
  const std::uint32_t number = published_ && needs_ == kAll ? number_ : number_ ^ kAnyLine;
  slots_[std::size_t(rank_)]->asleep_for.store(number, std::memory_order_relaxed);
}

// Whether this rank's line need not wake a sleeping peer, because other lines are still missing. Of ranks that write at
// the same time, one sees all lines, since each looks at the others' after its own is visible. Lines that disagree wake
// the peer at once.
bool Board::sleeps_on(std::size_t peer) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (peers_[peer].slots->asleep_for.load(std::memory_order_relaxed) != number_) return false;
  bool missing = false;
  for (const Peer& each : peers_) {
    const memory::BoardLine& line = each.slots->line[place_of(number_)];
    if (line.number.load(std::memory_order_acquire) != number_) {
      missing = true;
    } else if (!agrees(line, number_)) {
      return false;
    }
  }
  return missing;
}

bool Board::awaits(int rank) const {
  if (rank == rank_) return false;
  if (published_) return (needs_ == kAll || needs_ == rank) && !has_come(rank, number_);
  return seen_ != number_ && !has_come(rank, seen_);
}

}  // namespace anello::executor
