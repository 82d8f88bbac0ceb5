#include "recorder/call_record.h"

#include "base/custom_op.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/kind.h"
#include "base/text.h"

#include <algorithm>
#include <cstring>

namespace anello::recorder {
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

}  // namespace anello::recorder
