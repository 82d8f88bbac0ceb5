#include "recorder/ledger.h"

#include "base/dtype.h"

#include <bit>

#include <sched.h>

namespace anello::recorder {
namespace {

std::size_t kind_index(std::int32_t kind) {
  return std::size_t(std::uint32_t(kind)) < Ledger::kOther ? std::size_t(kind) : Ledger::kOther;
}

std::uint64_t bytes_of(const CallRecord& call) {
  if (call.refused != 0 || call.kind == ANELLO_BARRIER || kind_index(call.kind) == Ledger::kOther) return 0;
  return call.count * dtype_bytes(static_cast<anello_dtype_t>(call.dtype));
}

// Whether `count` is that of one rank's block in the larger buffer.
bool has_blocks(std::size_t kind) {
  return kind == ANELLO_ALLGATHER || kind == ANELLO_GATHER || kind == ANELLO_SCATTER || kind == ANELLO_ALLTOALL ||
         kind == ANELLO_REDUCE_SCATTER_BLOCK;
}

}  // namespace

void Ledger::describe(CallRecord& record) {
  const bool counts_alike = record.kind == last_kind_.load(std::memory_order_relaxed) &&
                            bytes_of(record) == last_bytes_.load(std::memory_order_relaxed);
  if (!counts_alike) count(record);
  record.described = ++described_;
  const auto words = std::bit_cast<Words>(static_cast<const CallFields&>(record));
  Description& description = descriptions_[described_ % kSlots];
  for (std::size_t i = 0; i < words.size(); ++i) description.words[i].store(words[i], std::memory_order_relaxed);
  if (record.labelled == 0) return;
  const auto label = std::bit_cast<LabelWords>(record.label());
  for (std::size_t i = 0; i < label.size(); ++i) description.label[i].store(label[i], std::memory_order_relaxed);
}

std::optional<CallRecord> Ledger::read(std::uint64_t number) const {
  const Slot& slot = slots_[number % kSlots];
  CallRecord record;
  record.sequence = slot.sequence.load(std::memory_order_relaxed);
  record.digest = slot.digest.load(std::memory_order_relaxed);
  const Description& description = descriptions_[slot.described.load(std::memory_order_relaxed) % kSlots];
  Words words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = description.words[i].load(std::memory_order_relaxed);
  LabelWords label{};
  for (std::size_t i = 0; i < label.size(); ++i) label[i] = description.label[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (noted_.load(std::memory_order_relaxed) - number > kKept) return std::nullopt;
  static_cast<CallFields&>(record) = std::bit_cast<CallFields>(words);
  if (record.labelled != 0) {
    label.back() &= ~(std::uint64_t{0xff} << 56);  // another process's memory may lack its end
    record.set_label(std::bit_cast<Label>(label));
  }
  return record;
}

std::optional<CallRecord> Ledger::find(std::uint32_t sequence) const {
  const std::uint64_t noted = noted_.load(std::memory_order_acquire);
  for (std::uint64_t i = 0; i < kKept && i < noted; ++i) {
    const auto record = read(noted - 1 - i);
    if (!record) break;  // older ones are also gone
    if (record->sequence == sequence) return record;
  }
  return std::nullopt;
}

std::optional<CallRecord> Ledger::newest() const {
  for (std::uint64_t noted; (noted = noted_.load(std::memory_order_acquire)) != 0; sched_yield()) {
    if (auto record = read(noted - 1)) return record;
  }
  return std::nullopt;
}

std::optional<Ledger::Entry> Ledger::entry(std::uint64_t number) const {
  const bool ended = number < ended_.load(std::memory_order_acquire);
  const std::optional<Ending> stay = stays_.of(number);
  auto call = read(number);
  if (!call) return std::nullopt;
  Entry entry{std::move(*call), ended || (stay && stay->ended), stay.value_or(Ending{})};
  return entry;
}

void Ledger::count(const CallRecord& next) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint32_t version = counting_.load(relaxed);
  counting_.store(version + 1, relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const std::uint64_t noted = noted_.load(relaxed);
  const std::uint64_t calls = noted - counted_from_.load(relaxed);
  Count& last = counts_[kind_index(last_kind_.load(relaxed))];
  last.calls.store(last.calls.load(relaxed) + calls, relaxed);
  last.bytes.store(last.bytes.load(relaxed) + calls * last_bytes_.load(relaxed), relaxed);
  counted_from_.store(noted, relaxed);
  last_kind_.store(next.kind, relaxed);
  last_bytes_.store(bytes_of(next), relaxed);
  counting_.store(version + 2, std::memory_order_release);
}

Ledger::Totals Ledger::totals(int ranks) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  constexpr int kTries = 100;
  Totals totals;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint32_t version = counting_.load(std::memory_order_acquire);
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      totals[kind] = {counts_[kind].calls.load(relaxed), counts_[kind].bytes.load(relaxed)};
    const std::uint64_t noted = noted_.load(std::memory_order_acquire);
    const std::uint64_t from = counted_from_.load(relaxed);
    Total& last = totals[kind_index(last_kind_.load(relaxed))];
    const std::uint64_t bytes = last_bytes_.load(relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || counting_.load(relaxed) != version) continue;
    last.calls += noted - from;
    last.bytes += (noted - from) * bytes;
    break;
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    if (has_blocks(kind)) totals[kind].bytes *= std::uint64_t(ranks);
  return totals;
}

}  // namespace anello::recorder
