#pragma once
// A communicator's last calls as this rank made them, for the service threads to compare when ranks disagree.
// The posting thread writes it, one at a time; the service thread reads it at any time, without a lock, and discards
// records that the writer may have overwritten meanwhile. A repeated call only costs its sequence and digest.
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

// Kinds beyond anello_kind_t: calls that consist of collectives.
inline constexpr std::int32_t kDupCall = 100;
inline constexpr std::int32_t kSplitCall = 101;
inline constexpr std::int32_t kWindowCreateCall = 102;
inline constexpr std::int32_t kWindowFreeCall = 103;

struct CallFields {
  std::int32_t kind = 0;  // anello_kind_t, or one of the above
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::int16_t refused = 0;    // if not 0, the call was refused on its rank with this anello_result_t
  std::uint16_t labelled = 0;  // has a label
  std::uint32_t padding = 0;   // the words have no padding
  std::uint64_t count = 0;
  std::uint64_t algorithm = 0;  // named_algorithm of the algorithm that the call itself requested; 0: none
};

// The first letters of an algorithm's name, as many as a number holds.
std::uint64_t named_algorithm(std::string_view name);

struct CallRecord : CallFields {
  std::uint32_t sequence = 0;
  std::uint64_t digest = 0;     // of the fields that must be equal, chained over all earlier calls
  std::uint64_t described = 0;  // the place of the noted fields in the ledger; 0: they have changed
  // This rank's own field, which is in no digest.
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

// The digest of the fields of this call that must be equal on all ranks: kind, dtype, op, root, count, algorithm,
// refusal.
std::uint64_t digest_of(const CallRecord& record);

class Ledger {
 public:
  // The number of calls that disagreeing ranks compare, up to the call in which they noticed it.
  static constexpr std::uint32_t kCompared = 64;
  // The rank that noticed it may be half of the board's lines behind the others (Board::lead()).
  static constexpr std::uint32_t kKept = kCompared + memory::kBoardLines / 2;

  void note(CallRecord& record) {
    const std::uint64_t number = noted_.load(std::memory_order_relaxed);
    // A reader of the record that is being overwritten will see this number.
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
  // The record that is being written is not one of the kept records.
  static constexpr std::uint32_t kSlots = std::bit_ceil(kKept + 1);
  struct Slot {
    std::atomic<std::uint32_t> sequence{0};
    std::atomic<std::uint64_t> digest{0};
    std::atomic<std::uint64_t> described{0};
  };
  // As many as may differ.
  struct Description {
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words{};
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<LabelWords>> label{};  // of a labelled call
  };
  // Nothing: the writer has overwritten it.
  std::optional<CallRecord> read(std::uint64_t number) const;
  void describe(CallRecord& record);

  std::array<Slot, kSlots> slots_{};
  std::array<Description, kSlots> descriptions_{};
  std::uint64_t described_ = 1;          // the last one's number
  std::atomic<std::uint64_t> noted_{0};  // records ever written
};

}  // namespace anello::control
