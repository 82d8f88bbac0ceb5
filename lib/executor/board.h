#pragma once
// One exchange at a time over a communicator's board: every rank writes its payload and a number on its own line, and
// reads the lines that it needs once they carry that number. Lines in turn need no second synchronisation: who writes
// number n + k has seen all lines of n + 1, whose writers had left n. So who needs nobody's line (the root of a
// broadcast) goes on at once, up to half of the lines ahead of the others, or one with a larger payload. A line stays
// for as long again: those that a rank had no need of are compared when it looks for room, while it drives anything,
// and at the end.
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
  // local[i]: arena index of the communicator's rank i. crowded: the host has more ranks than processors, alike on all;
  // each hand-over of a processor then serves many calls, if there are lines for them. Else fewer stay in the first
  // cache beside what the caller has there.
  Board(const memory::Arena& arena, int index, const std::vector<int>& local, int rank, std::uint32_t first_number,
        bool crowded);

  explicit operator bool() const { return !slots_.empty(); }
  int index() const { return index_; }

  // Largest payload of one rank.
  static constexpr std::size_t capacity() { return memory::kBoardBytes; }

  // How far ahead with payloads that fit into a line.
  std::uint32_t lead() const { return (mask_ + 1) / 2; }
  enum class Seen { waiting, complete, mismatch };
  // Whether all ranks are so close that this one may write its next line, and have agreed until there.
  Seen room(std::size_t bytes) {
    const std::uint32_t most = bytes > memory::kInlineBytes ? memory::kBoardPayloads : lead();
    const std::uint32_t need = number_ + 2 - most;
    if (static_cast<std::int32_t>(seen_ - need) >= 0) return Seen::complete;
    return look_behind(need);
  }
  // Whether some line that this rank had no need of has not been seen yet.
  bool is_behind() const { return seen_ != number_; }
  // The call of the first exchange of which that is so.
  std::uint32_t behind_at() const { return own_[seen_ % own_.size()].sequence; }
  // Sees those that have come.
  void catch_up() { look_behind(number_); }
  // The call, by its sequence, of the first exchange that other ranks' lines, as far as they have come, do not agree
  // on, and whose line that is.
  struct Disagreed {
    std::uint32_t sequence;
    int rank;
  };
  std::optional<Disagreed> disagreed();
  // Whether that rank's line is another call's, in this exchange or one whose lines have not all been seen.
  bool differs(int rank) const;
  // Whose lines a rank needs: all, nobody's, or one rank's.
  static constexpr int kAll = -1, kNobody = -2;
  // Writes this rank's line for the next exchange and wakes who sleeps, but for who needs others' lines as well.
  // Requires: there is room.
  void publish(LineKind kind, const std::byte* payload, std::size_t bytes, std::uint64_t digest, std::uint32_t sequence,
               int needs = kAll);

  // Whether the needed lines of the published exchange are there, and agree on the round and the digest.
  Seen look(Round round, std::uint64_t digest);
  // Whether it takes a rank's line to go on: to see it, or for room.
  bool awaits(int rank) const;
  // Where ranks share processors: whether all lines that the published exchange still needs are of ranks that were on
  // other processors than this rank when they wrote their last ones. To give this one away helps none of them.
  bool awaits_elsewhere() const;
  // Of two ranks, the one with the lower number.
  bool is_first_of_two() const { return peers_.size() == 1 && rank_ == 0; }
  // This rank is about to sleep, and says so after this: which lines need to wake it.
  void about_to_sleep();

  // Payload of a needed rank in the complete exchange, which is as long as the call says.
  const std::byte* payload(int rank, std::size_t bytes) const;
  // What a peer's line says it is; that it is of this round, look() has seen.
  LineKind kind(int rank) const { return static_cast<LineKind>(line_of(rank, number_).kind); }
  // Leaves the exchange: the next may be published.
  void finish();

  // Peers' memory. Between begin_touching and end_touching this rank may be at the buffers that the others have
  // announced for the operation. False, and it may not: one of them has ended it with an error. Asked again between
  // pieces.
  bool begin_touching(std::uint32_t sequence);
  bool may_touch(std::uint32_t sequence) const;
  void end_touching();
  // The other side: from now on nobody begins; is_touching tells who has not ended yet.
  void stop(std::uint32_t sequence);
  bool is_touching(int rank, std::uint32_t sequence) const;

  // Messages that are taken from where they lie. Their sender says that they are no longer there, for good, before its
  // caller may write to them.
  void stop_gets_of_peers();
  // For who has just read one: whether what it read was the message.
  bool allows_gets(int rank) const;

  // The communicator of that id has ended on this rank with an error; with which one on another, or ANELLO_OK.
  struct Failed {
    anello_result_t code = ANELLO_OK;
    bool first_hand = false;  // for a reason of its own, and not since it was told to
  };
  void tell_failed(std::uint64_t id, Failed how);
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
  Seen look_behind(std::uint32_t end);
  bool sleeps_on(std::size_t peer) const;
  void claim_next();
  void fence() const;
  memory::BoardTouch& own() const { return slots_[std::size_t(rank_)]->touch; }

  const memory::Arena* arena_ = nullptr;
  int index_ = -1;
  int rank_ = -1;
  std::uint32_t mask_ = 0;  // of the lines that are used
  // Who loads a line may be given its neighbour in the same 128 bytes, too (adjacent-line prefetch), and so take from
  // its writer the one that is next: where few lines are used each has such a pair to itself.
  int lines_apart_log2_ = 0;
  std::uint32_t number_ = 1;  // of the exchange being done or the next one
  std::uint32_t seen_ = 1;    // all ranks have come to every exchange before this one
  int behind_ = 0;            // of it, lines of ranks below this one have
  static constexpr int kFollows = 5;
  int follows_ = 0;  // exchanges that needed one line, since one was last waited for; counted up to kFollows
  struct Own {
    std::uint64_t digest;
    std::uint32_t sequence;
    Round round;
  };
  std::array<Own, memory::kBoardLines> own_{};  // of exchanges from seen_ on
  int needs_ = kAll;
  bool published_ = false;
  bool crowded_ = false;     // ranks share processors
  bool fences_ = false;      // some rank does not make others' stores visible before it looks (store_barrier.h)
  std::size_t beside_ = 0;   // bytes of the last payload that lay beside its line
  std::size_t missing_ = 0;  // of the published one, the lines of peers before this one have come
  std::vector<memory::BoardSlots*> slots_;
  struct Peer {
    const memory::BoardSlots* slots;
    const std::atomic<std::uint32_t>* sleeping;
    int local;
    int rank;
    std::uint32_t compared;  // its lines of exchanges from seen_ on and before this one agree, if it is one of those
  };
  std::vector<Peer> peers_;  // all but this rank, whose line the others are loading
};

// ---- The way of the smallest calls: inline, since a call of another file costs as much as what these do ----

// Between a store and a look at what others store, who look at this one: they see to it, where all can.
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
    // Of a writer that is ahead the line after the next is there, too. From any other it would be taken away.
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

// Of this rank's lines for the next exchange.
inline void Board::claim_next() {
  const memory::BoardSlots& mine = *slots_[std::size_t(rank_)];
  claim_line(&mine.line[place_of(number_)]);
  // The next payload is mostly as large as the last one; but who has not seen that the others have left its place would
  // take it from them.
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
