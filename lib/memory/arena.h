#pragma once
// The memory that the ranks of one host share: one mapping, made by the host's first rank. It holds an inbox for each
// local rank (index 0..ranks-1), a ring for each ordered pair, and a board for each communicator whose ranks all share
// it. Its pages are zero until used; zero is a valid empty state of everything in it. It has no name anywhere.
//
// Every process that maps it may write all of it: an index read from it is bounded before use.
#include "base/store_barrier.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace anello::memory {

inline constexpr std::size_t kLine = 64;
inline constexpr int kMaxLocalRanks = 256;
inline constexpr int kMaxBoards = 512;
inline constexpr std::size_t kArenaPage = 4096;
inline constexpr std::size_t whole_arena_pages(std::size_t n) { return (n + kArenaPage - 1) / kArenaPage * kArenaPage; }

// The state that a local rank tells all others without a message.
enum class RankState : std::uint32_t { unborn = 0, alive = 1, left = 2, failed = 3 };

// A random number in a rank's process, and its address there. A peer that can read it (process_memory.h) can read the
// rest.
struct alignas(kLine) Sample {
  std::uint64_t process;
  std::uint64_t address;
  std::uint64_t number;  // 0 until it is drawn
};

struct alignas(2 * kLine) Inbox {
  static constexpr std::uint32_t kAsleep = 1, kFenced = 2;
  // kAsleep: this rank is about to wait on its descriptors only. A peer that publishes something for it (a ring's tail
  // or freed room, the last board line that it sleeps for) then clears kAsleep and, if it was set, writes the rank's
  // wake-up descriptor. kFenced: the rank sleeps often; peers make their own stores visible before they look here.
  std::atomic<std::uint32_t> sleeping;
  // 1: between kAsleep and the wait the rank makes the stores of all agreeing processes visible (store_barrier.h),
  // unless it has set kFenced. Written before `state`.
  std::atomic<std::uint32_t> barriers;
  std::atomic<RankState> state;
  // Bit i: local rank i has sent its first frame here (lanes are opened on first use, by the sender alone).
  alignas(kLine) std::atomic<std::uint64_t> first_use[kMaxLocalRanks / 64];
  Sample sample;  // written before `state`
  // Total bytes that this rank has copied, reduced or received.
  alignas(kLine) std::atomic<std::uint64_t> handled;
};

// A rank's part of a board: lines used in turn. One cache line carries up to kInlineBytes of payload and the number
// that announces it. Longer payloads lie in the fewer slots of `payload`.
inline constexpr std::size_t kInlineBytes = 48;
inline constexpr std::size_t kBoardBytes = 16 * 1024;
inline constexpr std::uint32_t kBoardLines = 256;
inline constexpr std::uint32_t kBoardPayloads = 2;

struct alignas(kLine) BoardLine {
  std::atomic<std::uint32_t> number;    // of its exchange, counted from 1; wraps past 0
  std::uint8_t kind;                    // the executor's (line.h)
  std::atomic<std::uint8_t> processor;  // a hint: the writer's, modulo 256, where ranks share processors
  std::uint64_t digest;
  std::byte data[kInlineBytes];
};
static_assert(sizeof(BoardLine) == kLine);

// State of a rank whose memory others load and store. The first two name an operation by its sequence plus 1, or hold
// 0. They have lines of their own: a rank writes `touching` in every call, and reads every rank's `stopped`.
struct BoardTouch {
  alignas(kLine) std::atomic<std::uint64_t> touching;  // it is accessing its peers' buffers for this one
  alignas(kLine) std::atomic<std::uint64_t> stopped;   // this one has failed here: no peer may begin to touch its
                                                       // buffers
  std::atomic<std::uint64_t> allows_no_gets;           // 1: messages that it has announced may be gone
  // The failure of a communicator on this rank: its id (the board may have had an earlier one) and the code, or 0.
  std::atomic<std::uint64_t> failed_id;
  std::atomic<std::uint64_t> failed_first_hand;  // 1: this rank found the error itself, and was not told of it
  std::atomic<std::uint64_t> failed;
};

struct alignas(2 * kLine) BoardSlots {
  BoardLine line[kBoardLines];
  BoardTouch touch;
  // Number of the exchange for whose lines this rank sleeps. Written before Inbox::sleeping.
  alignas(kLine) std::atomic<std::uint32_t> asleep_for;
  // Starts on a line: otherwise a payload of whole lines would span one more, which costs its readers another transfer.
  alignas(2 * kLine) std::byte payload[kBoardPayloads][kBoardBytes];
};
static_assert(kBoardBytes % kLine == 0);

// A ring's control words, each side's on lines of its own. Positions count bytes since the beginning and wrap.
struct RingControl {
  alignas(2 * kLine) std::atomic<std::uint64_t> tail;  // written by the sender
  alignas(2 * kLine) std::atomic<std::uint64_t> head;  // written by the receiver
  std::atomic<std::uint32_t> sender_waits;             // 1: the sender sleeps until head moves
};

// Offsets of all parts, computed from values that all local ranks know.
struct ArenaLayout {
  int ranks = 0;
  std::size_t ring_bytes = 0;  // a power of two

  std::size_t ring_stride() const { return sizeof(RingControl) + ring_bytes; }
  std::size_t inboxes() const;  // after the ArenaHeader
  std::size_t boards() const { return round(inboxes() + std::size_t(ranks) * sizeof(Inbox)); }
  std::size_t board_stride() const { return round(std::size_t(ranks) * sizeof(BoardSlots)); }
  std::size_t rings() const { return round(boards() + kMaxBoards * board_stride()); }
  std::size_t bytes() const { return round(rings() + std::size_t(ranks) * ranks * ring_stride()); }

 private:
  static std::size_t round(std::size_t n) { return whole_arena_pages(n); }
};

// How long ranks have used a processor, or several that share its number, in turns that they ended themselves. It has a
// line of its own, which stays in that processor's cache.
inline constexpr int kTurnCounts = 32;
struct alignas(kLine) TurnCount {
  std::atomic<std::uint64_t> nanoseconds;
};

// Where the staging memory of a board's communicators lies behind the arena (extent.h). The range stays with the board
// for its next communicator.
struct BoardStaging {
  std::uint64_t offset;  // 0 before the first
  std::uint64_t bytes;
};

struct ArenaHeader {
  std::uint64_t nonce;  // random; a rank that finds it there has mapped the right memory
  std::uint32_t ranks;
  std::uint32_t ring_bytes;
  // Number of ranks that still use a board; 0 if it is free. Board 0 always belongs to the whole job.
  std::atomic<std::uint32_t> board_users[kMaxBoards];
  std::atomic<std::uint64_t> extents;  // bytes given out behind the arena (extent.h)
  TurnCount turns[kTurnCounts];
  BoardStaging board_staging[kMaxBoards];  // written by rank 0 of the communicator that uses the board
};

inline std::size_t ArenaLayout::inboxes() const { return whole_arena_pages(sizeof(ArenaHeader)); }

// State besides the arena's memory that its ranks in one process share. It lives as long as the process's mapping: a
// rank may send and leave before another one creates its transport.
struct ArenaThreads {
  std::mutex mutex;
  std::shared_ptr<void> lanes;  // made by the inproc transport
};

// One rank's view of the arena. A value; the maker of the mapping keeps the mapping alive (control::Job).
class Arena {
 public:
  Arena() = default;
  Arena(std::byte* base, ArenaLayout layout, int index, int fd, const int* wake, ArenaThreads* threads)
      : base_(base),
        layout_(layout),
        index_(index),
        fd_(fd),
        wake_(wake),
        threads_(threads),
        agreed_(agrees_to_store_barriers()) {}

  explicit operator bool() const { return base_ != nullptr; }
  int index() const { return index_; }
  int ranks() const { return layout_.ranks; }
  const ArenaLayout& layout() const { return layout_; }
  int file() const { return fd_; }  // -1 if there is none
  ArenaThreads& threads() const { return *threads_; }
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }
  Inbox& inbox(int rank) const { return reinterpret_cast<Inbox*>(base_ + layout_.inboxes())[rank]; }
  BoardSlots& board(int board, int rank) const {
    return reinterpret_cast<BoardSlots*>(base_ + layout_.boards() + std::size_t(board) * layout_.board_stride())[rank];
  }
  RingControl& ring(int from, int to) const { return *reinterpret_cast<RingControl*>(ring_base(from, to)); }
  std::byte* ring_data(int from, int to) const { return ring_base(from, to) + sizeof(RingControl); }

  // Backs a range with pages now, so that a full machine is an error here and not a SIGBUS later. False: no memory.
  bool commit(std::size_t offset, std::size_t bytes) const;
  bool commit_ring(int from, int to) const;
  bool commit_board(int board) const;
  // Gives back the pages of a board that no rank uses, or of one rank's part that the rank does not use.
  void release_board(int board) const;
  void release_board(int board, int rank) const;

  // Writes rank's wake-up descriptor if it sleeps. Call after publishing. Contains the full fence that orders the two,
  // unless the sleeper provides it.
  void wake(int rank) const {
    if (fences_for(rank)) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    wake_after_fence(rank);
  }
  bool fences_for(int rank) const { return !agreed_ || inbox(rank).barriers.load(std::memory_order_relaxed) == 0; }
  void wake_after_fence(int rank) const {
    if (inbox(rank).sleeping.load(std::memory_order_relaxed) != 0) ring_bell(rank);
  }
  void ring_bell(int rank) const;  // for a rank whose `sleeping` was not 0

 private:
  std::byte* ring_base(int from, int to) const {
    return base_ + layout_.rings() + (std::size_t(from) * layout_.ranks + to) * layout_.ring_stride();
  }
  std::byte* base_ = nullptr;
  ArenaLayout layout_;
  int index_ = -1;
  int fd_ = -1;                // of the memfd; -1: anonymous memory of one process, already backed
  const int* wake_ = nullptr;  // eventfds by local index
  ArenaThreads* threads_ = nullptr;
  bool agreed_ = false;  // this process agrees to store barriers (store_barrier.h)
};

}  // namespace anello::memory
