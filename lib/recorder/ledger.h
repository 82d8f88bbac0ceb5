#pragma once
// A communicator's last calls as this rank made them, for the service threads to compare when ranks disagree, and for
// whoever wants to see what a rank does (snapshot.h). The posting thread writes it, one at a time; others read it at
// any time, also from another process, without a lock, and discard records that the writer may have overwritten
// meanwhile. A repeated call only costs its sequence and digest, and a store when it ends.
#include "memory/arena.h"
#include "recorder/call_record.h"
#include "recorder/stay.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

namespace anello::recorder {

// How often calls of one kind were made.
struct Total {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // of this rank's buffers
};

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
  // All calls noted so far have ended well.
  void all_ended() { ended_.store(noted_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  // The call stays: a thread that waits for it has read the clock.
  void see(std::uint32_t sequence, std::int64_t now_ns) {
    const std::uint64_t number = number_of(sequence);
    if (number != kNone) stays_.see(number, now_ns);
  }
  // A call that stayed, or was refused, has ended.
  template <class Now>
  void end(std::uint32_t sequence, std::int32_t result, Now&& now_ns) {
    const std::uint64_t number = number_of(sequence);
    if (number != kNone) stays_.end(number, result, now_ns);
  }

  // The record, if it is among the last kKept.
  std::optional<CallRecord> find(std::uint32_t sequence) const;
  // The newest record; empty before the first call.
  std::optional<CallRecord> newest() const;

  // ---- For snapshots ----
  std::uint64_t noted() const { return noted_.load(std::memory_order_acquire); }
  struct Entry {
    CallRecord call;
    bool ended = false;
    Ending ending;
  };
  // By number, counted from 0. Nothing: the writer has overwritten it.
  std::optional<Entry> entry(std::uint64_t number) const;
  // Kinds from kOther on count as kOther.
  static constexpr std::size_t kKinds = 32, kOther = kKinds - 1;
  using Totals = std::array<Total, kKinds>;
  Totals totals(int ranks) const;

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
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
  // kNone: this call is not among the last kSlots.
  std::uint64_t number_of(std::uint32_t sequence) const {
    const std::uint64_t noted = noted_.load(std::memory_order_relaxed);
    const std::uint32_t back = slots_[(noted - 1) % kSlots].sequence.load(std::memory_order_relaxed) - sequence;
    return back < kSlots && back < noted ? noted - 1 - back : kNone;
  }

  std::array<Slot, kSlots> slots_{};
  std::array<Description, kSlots> descriptions_{};
  std::uint64_t described_ = 1;          // the last one's number
  std::atomic<std::uint64_t> noted_{0};  // records ever written
  std::atomic<std::uint64_t> ended_{0};  // all before this number have ended
  Stays<kSlots> stays_;
  // Calls are counted when one of another kind or size follows; those from counted_from_ on are not counted yet.
  struct Count {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> bytes{0};  // for a kind with a block for each rank: of one block
  };
  void count(const CallRecord& next);
  std::array<Count, kKinds> counts_{};
  std::atomic<std::uint32_t> counting_{0};  // odd: counts_ and what follows change
  std::atomic<std::uint64_t> counted_from_{0};
  std::atomic<std::int32_t> last_kind_{0};
  std::atomic<std::uint64_t> last_bytes_{0};
};

}  // namespace anello::recorder
