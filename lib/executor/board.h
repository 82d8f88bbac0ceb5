#pragma once
// One exchange at a time over a communicator's board: every rank writes its payload and a number on its own line, reads
// all lines once they carry that number, and folds them in rank order. Two slots in turn need no second
// synchronisation: who writes number n + 2 has seen all lines of n + 1, whose writers had read all of n.
#include "transports/arena.h"

#include <cstdint>
#include <vector>

namespace anello::executor {

class Board {
 public:
  Board() = default;  // none: the ranks share no memory
  // local[i]: arena index of the communicator's rank i.
  Board(const transport::Arena& arena, int index, std::vector<int> local, int rank, std::uint32_t first_number);

  explicit operator bool() const { return !slots_.empty(); }
  int index() const { return index_; }

  // Largest payload of one rank.
  static constexpr std::size_t capacity() { return transport::kBoardBytes; }

  // Writes this rank's line for the next exchange and wakes who sleeps. Requires: the previous one is complete here.
  void publish(const std::byte* payload, std::size_t bytes, std::uint64_t digest);

  enum class Seen { waiting, complete, mismatch };
  // Whether all lines of the published exchange are there, and agree on the digest.
  Seen look(std::uint64_t digest);
  // First rank whose line has not come; -1 when all have.
  int awaited() const { return missing_ < int(slots_.size()) ? missing_ : -1; }
  bool has_come(int rank) const;

  // Payload of a rank in the complete exchange, and how much it is.
  const std::byte* payload(int rank, std::size_t bytes) const;
  std::size_t payload_bytes(int rank) const { return slots_[std::size_t(rank)]->line[number_ & 1].bytes; }
  // Leaves the exchange: the next may be published.
  void finish() { ++number_; }

  // Peers' memory. Between begin_touching and end_touching this rank may be at the buffers that the others have announced
  // for the operation. False, and it may not: one of them has ended it with an error. Asked again between pieces.
  bool begin_touching(std::uint32_t sequence);
  bool may_touch(std::uint32_t sequence) const;
  void end_touching();
  // The other side: from now on nobody begins; is_touching tells who has not ended yet.
  void stop(std::uint32_t sequence);
  bool is_touching(int rank, std::uint32_t sequence) const;

 private:
  // Never 0, which stands for no operation.
  static std::uint64_t name_of(std::uint32_t sequence) { return std::uint64_t{sequence} + 1; }
  void fence() const;
  transport::BoardTouch& own() const { return slots_[std::size_t(rank_)]->touch; }

  const transport::Arena* arena_ = nullptr;
  int index_ = -1;
  int rank_ = -1;
  std::uint32_t number_ = 1;  // of the exchange being done or the next one
  bool fences_ = false;       // some rank does not make others' stores visible before it looks (store_barrier.h)
  int missing_ = 0;           // lines of ranks below it have come
  std::vector<int> local_;
  std::vector<transport::BoardSlots*> slots_;
};

}  // namespace anello::executor
