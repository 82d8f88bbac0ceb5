#pragma once
// A communicator's last calls as this rank made them, for the service threads to compare when ranks disagree.
// Written by whoever posts, one at a time; read by the service thread at any time, without a lock: each slot has a
// version that is odd while it is written, and the reader tries again when it changed under his eyes.
#include <anello/anello.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace anello::control {

// Kinds beyond anello_kind_t: calls that are made of collectives.
inline constexpr std::int32_t kDupCall = 100;
inline constexpr std::int32_t kSplitCall = 101;
inline constexpr std::int32_t kWindowCreateCall = 102;
inline constexpr std::int32_t kWindowFreeCall = 103;

struct CallRecord {
  std::uint32_t sequence = 0;
  std::int32_t kind = 0;   // anello_kind_t, or one of the above
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::int32_t refused = 0;  // not 0: the call was refused on its rank, with this anello_result_t
  std::uint64_t count = 0;
  std::uint64_t digest = 0;  // what must be equal, chained over all earlier calls

  // "allreduce(count 1000, float32, sum)"
  std::string describe() const;
};

// Of what all ranks must agree upon in this call alone: kind, dtype, op, root, count, refusal.
std::uint64_t digest_of(const CallRecord& record);

class Ledger {
 public:
  static constexpr std::uint32_t kKept = 64;

  void note(const CallRecord& record);
  // The record, if it is among the last kKept.
  std::optional<CallRecord> find(std::uint32_t sequence) const;
  // The newest record; empty before the first call.
  std::optional<CallRecord> newest() const;

 private:
  using Words = std::array<std::uint64_t, sizeof(CallRecord) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Words) == sizeof(CallRecord));
  struct Slot {
    std::atomic<std::uint64_t> version{0};
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words{};
  };
  CallRecord read(std::uint64_t number) const;

  std::array<Slot, kKept> slots_{};
  std::atomic<std::uint64_t> noted_{0};  // records ever written
};

}  // namespace anello::control
