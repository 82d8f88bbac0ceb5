#pragma once
// Runs one exchange at a time over a communicator's board: every rank writes its payload and a number on its own line,
// and reads the lines that it needs once they carry that number. Cycling through the lines saves a second
// synchronisation: a rank that writes number n + k has seen all lines of n + 1, whose writers had left n. So a rank
// that needs no line (the root of a broadcast) goes on at once, up to half of the lines ahead of the others, or one
// line with a larger payload. A line stays for as long again: a rank compares the lines that it did not need when it
// looks for room, while it drives anything, and at the end.
#include "base/processor.h"
#include "executor/line.h"
#include "memory/arena.h"

#include <anello/anello.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <sched.h>

namespace anello::executor {

class Board {
 public:
  Board() = default;  // none: the ranks share no memory
  // local[i]: arena index of the communicator's rank i. crowded: the host has more ranks than processors, alike on all
  // ranks; each hand-over of a processor then serves many calls, if there are lines for them. Otherwise fewer lines are
  // used, which stay in the first-level cache beside the caller's data.
  Board(const memory::Arena& arena, int index, const std::vector<int>& local, int rank, std::uint32_t first_number,
        bool crowded);

  explicit operator bool() const { return !slots_.empty(); }
  int index() const { return index_; }

  // The largest payload of one rank.
  static constexpr std::size_t capacity() { return memory::kBoardBytes; }

  // How far a rank may be ahead with payloads that fit into a line.
  std::uint32_t lead() const { return (mask_ + 1) / 2; }
  enum class Seen { waiting, complete, mismatch };
  // Whether all ranks are close enough for this one to write its next line, and have agreed up to there.
  Seen room(std::size_t bytes) {
    const std::uint32_t most = bytes > memory::kInlineBytes ? memory::kBoardPayloads : lead();
    const std::uint32_t need = number_ + 2 - most;
    if (static_cast<std::int32_t>(seen_ - need) >= 0) return Seen::complete;
    return check_lines_behind(need);
  }
  // Whether this rank has not yet seen some line that it did not need.
  bool is_behind() const { return seen_ != number_; }
  // The call of the first exchange with such a line.
  std::uint32_t behind_at() const { return own_[seen_ % own_.size()].sequence; }
  // Reads the lines that have come.
  void catch_up() { check_lines_behind(number_); }
  // The first exchange on which other ranks' lines, as far as they have come, do not agree: the sequence of its call,
  // and the rank that wrote the line.
  struct Disagreed {
    std::uint32_t sequence;
    int rank;
  };
  std::optional<Disagreed> disagreed();
  // Whether that rank's line belongs to another call, in this exchange or one whose lines have not all been seen.
  bool differs(int rank) const;
  // Whose lines a rank needs: all ranks', no rank's, or one rank's.
  static constexpr int kAll = -1, kNobody = -2;
  // Writes this rank's line for the next exchange and wakes sleeping ranks, except those that need others' lines as
  // well. Requires: there is room.
  void publish(LineKind kind, const std::byte* payload, std::size_t bytes, std::uint64_t digest, std::uint32_t sequence,
               int needs = kAll);

  // Whether the needed lines of the published exchange are there, and agree on the round and the digest.
  Seen look(Round round, std::uint64_t digest);
  // Whether this rank needs that rank's line to go on: to see it, or for room.
  bool awaits(int rank) const;
  // Where ranks share processors: whether all lines that the published exchange still needs are of ranks that were on
  // other processors than this rank when they wrote their last ones. Yielding this processor helps none of them.
  bool awaits_elsewhere() const;
  // True on the lower-numbered rank of exactly two.
  bool is_first_of_two() const { return peers_.size() == 1 && rank_ == 0; }
  // Publishes which lines need to wake this rank. It announces its sleep afterwards.
  void about_to_sleep();

  // The payload of a needed rank in the complete exchange, with the length that the call implies.
  const std::byte* payload(int rank, std::size_t bytes) const;
  // The kind that a peer's line states. look() has checked that it belongs to this round.
  LineKind kind(int rank) const { return static_cast<LineKind>(line_of(rank, number_).kind); }
  // Leaves the exchange, so that the next one may be published.
  void finish();

  // Peers' memory. Between begin_touching and end_touching this rank may access the buffers that the others have
  // announced for the operation. False: one of them has ended it with an error, and access is forbidden. may_touch asks
  // again between pieces.
  bool begin_touching(std::uint32_t sequence);
  bool may_touch(std::uint32_t sequence) const;
  void end_touching();
  // The other side: after stop() no peer begins; is_touching tells which peers have not ended yet.
  void stop(std::uint32_t sequence);
  bool is_touching(int rank, std::uint32_t sequence) const;

  // Messages that receivers copy from the sender's buffer. The sender withdraws them for good before its caller may
  // write to the buffer.
  void stop_gets_of_peers();
  // Called after a read of a message: whether the bytes read were that message.
  bool allows_gets(int rank) const;

  // publish_failure: the communicator of that id has ended here with an error. failed: another rank's, or ANELLO_OK.
  struct Failed {
    anello_result_t code = ANELLO_OK;
    bool first_hand = false;  // for a reason of its own, not because another rank told it to
  };
  void publish_failure(std::uint64_t id, Failed how);
  Failed failed(int rank, std::uint64_t id) const;

 private:
  // Never 0, which stands for no operation.
  static std::uint64_t name_of(std::uint32_t sequence) { return std::uint64_t{sequence} + 1; }
  std::uint32_t place_of(std::uint32_t number) const { return (number & mask_) << lines_apart_log2_; }
  const memory::BoardLine& line_of(int rank, std::uint32_t number) const {
    return slots_[std::size_t(rank)]->line[place_of(number)];
  }
  bool has_come(int rank, std::uint32_t number) const {
    return line_of(rank, number).number.load(std::memory_order_acquire) == number;
  }
  bool differs(int rank, std::uint32_t number) const {
    return has_come(rank, number) && !agrees(line_of(rank, number), number);
  }
  bool agrees(const memory::BoardLine& line, std::uint32_t number) const {
    const Own& own = own_[number % own_.size()];
    return line.digest == own.digest && round_of(static_cast<LineKind>(line.kind)) == own.round;
  }
  Seen check_lines_behind(std::uint32_t end);
  bool sleeps_on(std::size_t peer) const;
  void claim_next();
  void fence() const;
  memory::BoardTouch& own() const { return slots_[std::size_t(rank_)]->touch; }

  const memory::Arena* arena_ = nullptr;
  int index_ = -1;
  int rank_ = -1;
  std::uint32_t mask_ = 0;  // selects among the lines in use
  // A rank that loads a line may also get its neighbour in the same 128 bytes (adjacent-line prefetch), and so take the
  // next line from its writer: where few lines are used, each has a pair to itself.
  int lines_apart_log2_ = 0;
  std::uint32_t number_ = 1;  // of the current or next exchange
  std::uint32_t seen_ = 1;    // all ranks have come to every exchange before this one
  int behind_ = 0;            // in exchange seen_, the lines of ranks below this one have come
  static constexpr int kFollows = 5;
  int follows_ = 0;  // exchanges that needed one line, since this rank last waited for one; counted up to kFollows
  struct Own {
    std::uint64_t digest;
    std::uint32_t sequence;
    Round round;
  };
  std::array<Own, memory::kBoardLines> own_{};  // for the exchanges from seen_ on
  int needs_ = kAll;
  bool published_ = false;
  bool crowded_ = false;     // ranks share processors
  bool fences_ = false;      // some rank does not make others' stores visible before it looks (store_barrier.h)
  std::size_t beside_ = 0;   // bytes of the last payload that lay beside its line
  std::size_t missing_ = 0;  // in the published exchange, the lines of peers before this one have come
  std::vector<memory::BoardSlots*> slots_;
  struct Peer {
    const memory::BoardSlots* slots;
    const std::atomic<std::uint32_t>* sleeping;
    int local;
    int rank;
    std::uint32_t compared;  // its lines of exchanges from seen_ up to this one agree, if this one is in that range
  };
  std::vector<Peer> peers_;  // all ranks but this one, whose line the others are loading
};

// ---- The path of the smallest calls: inline, since a call into another file costs as much as their work ----

// Orders a store before a look at the others' stores. Where all ranks can, a peer that looks does it for this rank.
inline void Board::fence() const {
  if (fences_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

inline void Board::publish(LineKind kind, const std::byte* payload, std::size_t bytes, std::uint64_t digest,
                           std::uint32_t sequence, int needs) {
  memory::BoardSlots& mine = *slots_[std::size_t(rank_)];
  memory::BoardLine& line = mine.line[place_of(number_)];
  std::byte* const larger = mine.payload[number_ % memory::kBoardPayloads];
  if (bytes > 0) std::memcpy(bytes <= memory::kInlineBytes ? line.data : larger, payload, bytes);
  line.kind = static_cast<std::uint8_t>(kind);
  if (crowded_) line.processor.store(static_cast<std::uint8_t>(::sched_getcpu()), std::memory_order_relaxed);
  line.digest = digest;
  own_[number_ % own_.size()] = {digest, sequence, round_of(kind)};
  line.number.store(number_, std::memory_order_release);
  needs_ = needs;
  published_ = true;
  missing_ = 0;
  beside_ = bytes <= memory::kInlineBytes ? 0 : bytes;
  fence();
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].sleeping->load(std::memory_order_relaxed) != 0 && !sleeps_on(peer))
      arena_->ring_bell(peers_[peer].local);
  }
}

inline Board::Seen Board::look(Round round, std::uint64_t digest) {
  const auto look_at = [&](const memory::BoardSlots& slots) {
    const memory::BoardLine& line = slots.line[place_of(number_)];
    if (line.number.load(std::memory_order_acquire) != number_) return Seen::waiting;
    const bool agrees = line.digest == digest && round_of(static_cast<LineKind>(line.kind)) == round;
    return agrees ? Seen::complete : Seen::mismatch;
  };
  if (needs_ >= 0) {
    const Seen seen = look_at(*slots_[std::size_t(needs_)]);
    if (seen == Seen::waiting) follows_ = 0;
    return seen;
  }
  if (needs_ == kNobody) return Seen::complete;
  for (; missing_ < peers_.size(); ++missing_) {
    if (const Seen seen = look_at(*peers_[missing_].slots); seen != Seen::complete) return seen;
  }
  return Seen::complete;
}

inline void Board::finish() {
  ++number_;
  if (needs_ >= 0) {
    // A writer that is ahead has also written the line after the next. Any other writer would lose its line.
    if (follows_ == kFollows)
      ask_for_line(&line_of(needs_, number_ + 1));
    else
      ++follows_;
  }
  if (needs_ == kAll) {
    seen_ = number_;
    behind_ = 0;
  }
  published_ = false;
  claim_next();
}

// Claims this rank's lines for the next exchange.
inline void Board::claim_next() {
  const memory::BoardSlots& mine = *slots_[std::size_t(rank_)];
  claim_line(&mine.line[place_of(number_)]);
  // The next payload is mostly as large as the last one; but before all others are known to have left its place, a
  // claim would take it from them.
  constexpr std::size_t kMost = 8192;
  if (seen_ != number_) return;
  const std::byte* const next = mine.payload[number_ % memory::kBoardPayloads];
  for (std::size_t at = 0; at < std::min(beside_, kMost); at += memory::kLine) claim_line(next + at);
}

inline const std::byte* Board::payload(int rank, std::size_t bytes) const {
  if (bytes <= memory::kInlineBytes) return line_of(rank, number_).data;
  return slots_[std::size_t(rank)]->payload[number_ % memory::kBoardPayloads];
}

}  // namespace anello::executor
