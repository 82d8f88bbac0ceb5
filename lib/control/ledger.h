#pragma once
// A communicator's last calls as this rank made them, for the service threads to compare when ranks disagree.
// Written by whoever posts, one at a time; read by the service thread at any time, without a lock: what the writer may
// have come round to meanwhile is not believed. What is asked for again costs its sequence and digest alone.
#include "base/label.h"
#include "memory/arena.h"

#include <anello/anello.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anello::control {

// Kinds beyond anello_kind_t: calls that are made of collectives.
inline constexpr std::int32_t kDupCall = 100;
inline constexpr std::int32_t kSplitCall = 101;
inline constexpr std::int32_t kWindowCreateCall = 102;
inline constexpr std::int32_t kWindowFreeCall = 103;

struct CallFields {
  std::int32_t kind = 0;  // anello_kind_t, or one of the above
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::int16_t refused = 0;    // not 0: the call was refused on its rank, with this anello_result_t
  std::uint16_t labelled = 0;  // has a label
  std::uint32_t padding = 0;   // the words have no hole
  std::uint64_t count = 0;
  std::uint64_t algorithm = 0;  // named_algorithm of what the call itself asked for; 0: nothing
};

// As much of an algorithm's name as a number holds.
std::uint64_t named_algorithm(std::string_view name);

struct CallRecord : CallFields {
  std::uint32_t sequence = 0;
  std::uint64_t digest = 0;     // what must be equal, chained over all earlier calls
  std::uint64_t described = 0;  // where the ledger has the fields from when it noted them; 0: they are others now
  // This rank's own, in no digest.
  const Label& label() const { return label_; }
  void set_label(const Label& label) {
    label_ = label;
    labelled = label.empty() ? 0 : 1;
    described = 0;
  }
  // "allreduce(count 1000, float32, sum)"
  std::string describe() const;

 private:
  Label label_;
};

// Of what all ranks must agree upon in this call alone: kind, dtype, op, root, count, algorithm, refusal.
std::uint64_t digest_of(const CallRecord& record);

class Ledger {
 public:
  // Of ranks that disagree so many calls are compared, up to the one in which they found it.
  static constexpr std::uint32_t kCompared = 64;
  // Who found it may be half of the lines behind the others (Board::lead()).
  static constexpr std::uint32_t kKept = kCompared + memory::kBoardLines / 2;

  void note(CallRecord& record) {
    const std::uint64_t number = noted_.load(std::memory_order_relaxed);
    // Who reads what is overwritten now will see this number.
    std::atomic_thread_fence(std::memory_order_release);
    if (record.described != described_) describe(record);
    Slot& slot = slots_[number % kSlots];
    slot.sequence.store(record.sequence, std::memory_order_relaxed);
    slot.digest.store(record.digest, std::memory_order_relaxed);
    slot.described.store(described_, std::memory_order_relaxed);
    noted_.store(number + 1, std::memory_order_release);
  }
  // The record, if it is among the last kKept.
  std::optional<CallRecord> find(std::uint32_t sequence) const;
  // The newest record; empty before the first call.
  std::optional<CallRecord> newest() const;

 private:
  using Words = std::array<std::uint64_t, sizeof(CallFields) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Words) == sizeof(CallFields));
  using LabelWords = std::array<std::uint64_t, sizeof(Label) / sizeof(std::uint64_t)>;
  static_assert(sizeof(LabelWords) == sizeof(Label));
  // The one that is being written is none of those that are kept.
  static constexpr std::uint32_t kSlots = std::bit_ceil(kKept + 1);
  struct Slot {
    std::atomic<std::uint32_t> sequence{0};
    std::atomic<std::uint64_t> digest{0};
    std::atomic<std::uint64_t> described{0};
  };
  // As many as could differ.
  struct Description {
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words{};
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<LabelWords>> label{};  // of a labelled one
  };
  // Nothing: the writer has come round.
  std::optional<CallRecord> read(std::uint64_t number) const;
  void describe(CallRecord& record);

  std::array<Slot, kSlots> slots_{};
  std::array<Description, kSlots> descriptions_{};
  std::uint64_t described_ = 1;          // the last one's number
  std::atomic<std::uint64_t> noted_{0};  // records ever written
};

}  // namespace anello::control
