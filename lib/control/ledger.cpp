#include "control/ledger.h"

#include "base/custom_op.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/kind.h"
#include "base/text.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <sched.h>

namespace anello::control {
namespace {

const char* call_name(std::int32_t kind) {
  switch (kind) {
    case kDupCall: return "comm_dup";
    case kSplitCall: return "comm_split";
    case kWindowCreateCall: return "window_create";
    case kWindowFreeCall: return "window_free";
    default: return kind_name(kind);
  }
}

// The finaliser of a 64-bit mixing hash: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

}  // namespace

std::uint64_t digest_of(const CallRecord& record) {
  const std::uint64_t head = (std::uint64_t(std::uint32_t(record.kind)) << 32 | std::uint32_t(record.dtype)) ^
                             std::uint64_t(std::uint32_t(record.refused)) << 16;
  const std::uint64_t body = std::uint64_t(std::uint32_t(record.op)) << 32 | std::uint32_t(record.root);
  const std::uint64_t digest = mix(mix(mix(head + 0x9e3779b97f4a7c15ull) + body) + record.count);
  return record.algorithm == 0 ? digest : mix(digest + record.algorithm);
}

std::uint64_t named_algorithm(std::string_view name) {
  std::uint64_t number = 0;
  if (!name.empty()) std::memcpy(&number, name.data(), std::min(name.size(), sizeof number));
  return number;
}

std::string CallRecord::describe() const {
  std::string call = call_name(kind);
  if (kind == ANELLO_BARRIER || kind >= kDupCall) {
    call += "()";
  } else {
    call += "(";
    const bool rooted = kind_has_root(kind);
    // For calls between pairs, no count is common to all ranks; otherwise count is that of all parts, and root is a
    // digest of the counts.
    const bool pairs = kind_is_varying(kind) && (rooted || kind == ANELLO_ALLTOALLV);
    if (!pairs)
      call = text(call, "count ", count, kind_is_varying(kind) ? text(" in parts #", std::uint32_t(root)) : "", ", ");
    call += dtype_name(static_cast<anello_dtype_t>(dtype));
    if (kind_reduces(kind)) {
      call = text(call, ", ", op_text(op));
    }
    if (rooted) call = text(call, ", root ", root);
    if (algorithm != 0) {
      char name[sizeof algorithm + 1] = {};
      std::memcpy(name, &algorithm, sizeof algorithm);
      call = text(call, ", by ", Label(name).c_str());
    }
    call += ")";
  }
  call += label_.quoted();
  if (refused != 0) call = text(call, ", refused there as ", result_name(static_cast<anello_result_t>(refused)));
  return call;
}

void Ledger::describe(CallRecord& record) {
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
  if (record.labelled != 0) record.set_label(std::bit_cast<Label>(label));
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

}  // namespace anello::control
