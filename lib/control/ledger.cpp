#include "control/ledger.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/kind.h"
#include "base/text.h"

namespace anello::control {
namespace {

const char* call_name(std::int32_t kind) {
  return kind == kDupCall ? "comm_dup" : kind == kSplitCall ? "comm_split" : kind_name(kind);
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
  return mix(mix(mix(head + 0x9e3779b97f4a7c15ull) + body) + record.count);
}

std::string CallRecord::describe() const {
  std::string call = call_name(kind);
  if (kind == ANELLO_BARRIER || kind == kDupCall || kind == kSplitCall) {
    call += "()";
  } else {
    call = text(call, "(count ", count, ", ", dtype_name(static_cast<anello_dtype_t>(dtype)));
    if (kind == ANELLO_ALLREDUCE || kind == ANELLO_REDUCE_SCATTER_BLOCK) {
      call = text(call, ", ", op_name(static_cast<anello_op_t>(op)));
    }
    if (kind == ANELLO_BROADCAST) call = text(call, ", root ", root);
    call += ")";
  }
  if (refused != 0) call = text(call, ", refused there as ", result_name(static_cast<anello_result_t>(refused)));
  return call;
}

void Ledger::note(const CallRecord& record) {
  const std::lock_guard lock(mutex_);
  records_[noted_++ % kKept] = record;
}

std::optional<CallRecord> Ledger::find(std::uint32_t sequence) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t i = 0; i < kKept && i < noted_; ++i) {
    const CallRecord& record = records_[(noted_ - 1 - i) % kKept];
    if (record.sequence == sequence) return record;
  }
  return std::nullopt;
}

std::optional<CallRecord> Ledger::newest() const {
  const std::lock_guard lock(mutex_);
  if (noted_ == 0) return std::nullopt;
  return records_[(noted_ - 1) % kKept];
}

}  // namespace anello::control
