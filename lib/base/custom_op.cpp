#include "base/custom_op.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace anello {
namespace {

constexpr std::int32_t kFingerprints = 0x40000000;  // and above

struct Table {
  std::shared_mutex mutex;
  int next = kFirstCustomOp;
  std::unordered_map<int, std::shared_ptr<const CustomOp>> ops;
  // Names by fingerprint, also of freed operations: a mismatch may be reported after that.
  std::unordered_map<std::int32_t, std::string> names;
};

Table& table() {
  static Table* const table = new Table;  // leaked: calls may come from static destructors
  return *table;
}

}  // namespace

std::int32_t CustomOp::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3ull; };
  for (const char letter : name) mix(static_cast<unsigned char>(letter));
  mix(function == nullptr ? 0x100 : 0x101);
  mix(commutes ? 0x200 : 0x201);
  mix(element_bytes);
  hash ^= hash >> 32;
  return kFingerprints | static_cast<std::int32_t>(hash & 0x3fffffff);
}

anello_op_t add_custom_op(CustomOp op) {
  Table& all = table();
  auto made = std::make_shared<const CustomOp>(std::move(op));
  const std::unique_lock held(all.mutex);
  if (all.next == kFingerprints)
    throw Error(ANELLO_ERR_RESOURCE, "a billion operations were made: there is no number left");
  constexpr std::size_t kMaxNames = 4096;
  if (all.names.size() < kMaxNames) all.names.emplace(made->fingerprint(), made->name);
  all.ops.emplace(all.next, std::move(made));
  return static_cast<anello_op_t>(all.next++);
}

std::shared_ptr<const CustomOp> find_custom_op(anello_op_t op) {
  Table& all = table();
  const std::shared_lock held(all.mutex);
  const auto found = all.ops.find(op);
  return found == all.ops.end() ? nullptr : found->second;
}

bool remove_custom_op(anello_op_t op) {
  Table& all = table();
  const std::unique_lock held(all.mutex);
  return all.ops.erase(op) != 0;
}

std::string op_text(int op) {
  if (!is_custom_op(op)) return op_name(static_cast<anello_op_t>(op));
  if (op < kFingerprints) {
    const auto custom = find_custom_op(static_cast<anello_op_t>(op));
    return custom == nullptr ? "an operation that was freed" : text("operation '", custom->name, "'");
  }
  Table& all = table();
  const std::shared_lock held(all.mutex);
  const auto known = all.names.find(op);
  if (known != all.names.end()) return text("operation '", known->second, "'");
  return text("an operation unknown here (#", op - kFingerprints, ")");
}

}  // namespace anello
