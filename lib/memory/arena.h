#pragma once
// The memory that the ranks of one host share: one mapping, made by the host's first rank, of which each local rank
// (index 0..ranks-1) has an inbox, each ordered pair a ring, and each communicator whose ranks are all in it a board.
// Its pages are zero until used; zero is a valid empty state of everything in it. It has no name anywhere.
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

// What a local rank tells all others without a message.
enum class RankState : std::uint32_t { unborn = 0, alive = 1, left = 2, failed = 3 };

// A random number in a rank's process, and where it lies there: who reads it back (process_memory.h) may read the rest.
struct alignas(kLine) Sample {
  std::uint64_t process;
  std::uint64_t address;
  std::uint64_t number;  // 0: none yet
};

struct alignas(2 * kLine) Inbox {
  static constexpr std::uint32_t kAsleep = 1, kFenced = 2;
  // kAsleep: this rank is about to wait on its descriptors only. Who publishes something for it (a ring's tail or freed
  // room, the last board line that it sleeps for) afterwards takes that back and, if it was so, writes its wake-up
  // descriptor. kFenced: it sleeps often, and leaves it to the others to make their stores visible before they look
  // here.
  std::atomic<std::uint32_t> sleeping;
  // 1: between kAsleep and the wait it makes the stores of all who agree to it visible (store_barrier.h), but for
  // kFenced, which it announces so itself. Before `state`.
  std::atomic<std::uint32_t> barriers;
  std::atomic<RankState> state;
  // Bit i: local rank i has sent its first frame here (lanes are opened on first use, by the sender alone).
  alignas(kLine) std::atomic<std::uint64_t> first_use[kMaxLocalRanks / 64];
  Sample sample;  // written before `state`
  // Bytes that this rank has copied, reduced or received in all.
  alignas(kLine) std::atomic<std::uint64_t> handled;
};

// A rank's part of a board: lines used in turn. One cache line carries up to kInlineBytes of payload together with the
// number that says that it is there; more lies in `payload`, of which there are fewer.
inline constexpr std::size_t kInlineBytes = 48;
inline constexpr std::size_t kBoardBytes = 16 * 1024;
inline constexpr std::uint32_t kBoardLines = 256;
inline constexpr std::uint32_t kBoardPayloads = 2;

struct alignas(kLine) BoardLine {
  std::atomic<std::uint32_t> number;    // of the exchange that this is of, counted from 1; wraps past 0
  std::uint8_t kind;                    // the executor's (line.h)
  std::atomic<std::uint8_t> processor;  // that its writer was on, modulo 256, where ranks share processors; a hint
  std::uint64_t digest;
  std::byte data[kInlineBytes];
};
static_assert(sizeof(BoardLine) == kLine);

// Of a rank whose memory others load and store. The first two name an operation, by its sequence and 1; 0: none. On
// lines of their own: a rank writes the first in every call, and looks at everybody's second.
struct BoardTouch {
  alignas(kLine) std::atomic<std::uint64_t> touching;  // it is at its peers' buffers for this one, now
  alignas(kLine) std::atomic<std::uint64_t> stopped;   // this one has ended here with an error: nobody may begin to
                                                       // touch its buffers
  std::atomic<std::uint64_t> allows_no_gets;           // 1: messages whose place it has told may not be there any more
  // How it has ended here with an error: which communicator (the board may have been another's), and the code; 0: it
  // has not.
  std::atomic<std::uint64_t> failed_id;
  std::atomic<std::uint64_t> failed_first_hand;  // 1: for a reason of its own, and not since it was told to
  std::atomic<std::uint64_t> failed;
};

struct alignas(2 * kLine) BoardSlots {
  BoardLine line[kBoardLines];
  BoardTouch touch;
  // Number of the exchange that this rank sleeps for until all lines of it are there. Before Inbox::sleeping.
  alignas(kLine) std::atomic<std::uint32_t> asleep_for;
  // From the beginning of a line on: a line more for each payload of whole lines costs who loads them another transfer.
  alignas(2 * kLine) std::byte payload[kBoardPayloads][kBoardBytes];
};
static_assert(kBoardBytes % kLine == 0);

// A ring's control words, each side's on lines of its own. Positions count bytes since the beginning and wrap.
struct RingControl {
  alignas(2 * kLine) std::atomic<std::uint64_t> tail;  // written by the sender
  alignas(2 * kLine) std::atomic<std::uint64_t> head;  // written by the receiver
  std::atomic<std::uint32_t> sender_waits;             // 1: the sender sleeps until head moves
};

// Offsets of all of it, as a function of what all local ranks know.
struct ArenaLayout {
  int ranks = 0;
  std::size_t ring_bytes = 0;  // a power of two

  std::size_t ring_stride() const { return sizeof(RingControl) + ring_bytes; }
  std::size_t inboxes() const;  // behind the ArenaHeader
  std::size_t boards() const { return round(inboxes() + std::size_t(ranks) * sizeof(Inbox)); }
  std::size_t board_stride() const { return round(std::size_t(ranks) * sizeof(BoardSlots)); }
  std::size_t rings() const { return round(boards() + kMaxBoards * board_stride()); }
  std::size_t bytes() const { return round(rings() + std::size_t(ranks) * ranks * ring_stride()); }

 private:
  static std::size_t round(std::size_t n) { return whole_arena_pages(n); }
};

// Of one processor, or of several that have its number in common: how long ranks have had it, in turns that they ended
// themselves. On a line of its own, which stays in that processor's cache.
inline constexpr int kTurnCounts = 32;
struct alignas(kLine) TurnCount {
  std::atomic<std::uint64_t> nanoseconds;
};

// Where the staging memory of a board's communicators lies behind the arena (extent.h). The range stays the board's for
// the next one.
struct BoardStaging {
  std::uint64_t offset;  // 0: none yet
  std::uint64_t bytes;
};

struct ArenaHeader {
  std::uint64_t nonce;  // random; a rank that reads it back has mapped the right memory
  std::uint32_t ranks;
  std::uint32_t ring_bytes;
  // Ranks that still use a board; 0: free. Board 0 is always the whole job's.
  std::atomic<std::uint32_t> board_users[kMaxBoards];
  std::atomic<std::uint64_t> extents;  // bytes given out behind the arena (extent.h)
  TurnCount turns[kTurnCounts];
  BoardStaging board_staging[kMaxBoards];  // written by the first of the ranks that use the board
};

inline std::size_t ArenaLayout::inboxes() const { return whole_arena_pages(sizeof(ArenaHeader)); }

// What the ranks of one process that use an arena have in common beside its memory. It lives as long as the process's
// mapping: a rank may have sent and left before another has come to its transport.
struct ArenaThreads {
  std::mutex mutex;
  std::shared_ptr<void> lanes;  // made by the transport between threads
};

// One rank's sight of the arena. A value; whoever made the mapping keeps it alive (control::Job).
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
  int file() const { return fd_; }  // -1: none
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
  // The pages of a board that nobody uses, or of the part of it that is a rank's who does not, go back.
  void release_board(int board) const;
  void release_board(int board, int rank) const;

  // Writes rank's wake-up descriptor if it sleeps. Call after publishing; contains the full fence that orders the two,
  // where the sleeper does not see to that.
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
  void ring_bell(int rank) const;  // of one whose `sleeping` was not 0

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
  bool agreed_ = false;  // this process does (store_barrier.h)
};

}  // namespace anello::memory
