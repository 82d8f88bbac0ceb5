#include "gradient_sync/agreement.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>

namespace anello::gradient_sync {
namespace {

constexpr std::int64_t kNone = INT64_MAX;

const char* const kAgreeing = "agreeing with the other ranks";

int rank_in(const Collectives& all) {
  int rank = 0;
  check(all.comm(), anello_comm_rank(all.comm(), &rank), "rank");
  return rank;
}

std::int64_t least(const Collectives& all, std::int64_t value) {
  all.allreduce(&value, 1, ANELLO_INT64, ANELLO_MIN, kAgreeing);
  return value;
}

void broadcast_text(const Collectives& all, std::string& text, int root) {
  std::uint64_t bytes = text.size();
  all.broadcast(&bytes, 1, ANELLO_UINT64, root, kAgreeing);
  text.resize(bytes);
  all.broadcast(text.data(), bytes, ANELLO_BYTE, root, kAgreeing);
}

// Each item has its length before it, so that no two lists give the same bytes.
std::string packed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& one : texts) {
    const std::uint64_t bytes = one.size();
    all.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(one);
  }
  return all;
}

std::vector<std::string> unpacked(const std::string& all) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    std::uint64_t bytes;
    std::memcpy(&bytes, all.data() + at, sizeof bytes);
    texts.push_back(all.substr(at + sizeof bytes, bytes));
    at += sizeof bytes + bytes;
  }
  return texts;
}

}  // namespace

void agree(const Collectives& all, const std::optional<Error>& objection) {
  const int rank = rank_in(all);
  const std::int64_t first = least(all, objection ? rank : kNone);
  if (first == kNone) return;
  const auto from = static_cast<int>(first);
  std::int32_t code = objection ? objection->code() : ANELLO_OK;
  std::string said = objection ? objection->text() : "";
  all.broadcast(&code, 1, ANELLO_INT32, from, kAgreeing);
  broadcast_text(all, said, from);
  throw Agreed(static_cast<anello_result_t>(code), text("rank ", from, ": ", said));
}

void agree_on(const Collectives& all, const char* what, const std::vector<std::string>& said) {
  const int rank = rank_in(all);
  std::string first = packed(said);
  broadcast_text(all, first, 0);
  const std::vector<std::string> firsts = unpacked(first);
  const std::size_t both = std::min(firsts.size(), said.size());
  std::size_t place = 0;
  while (place < both && firsts[place] == said[place]) ++place;
  const bool differs = place < firsts.size() || place < said.size();
  const std::int64_t least_place = least(all, differs ? static_cast<std::int64_t>(place) : kNone);
  if (least_place == kNone) return;
  const bool mine = differs && static_cast<std::int64_t>(place) == least_place;
  const auto from = static_cast<int>(least(all, mine ? rank : INT_MAX));
  std::string other = !mine ? "" : place < said.size() ? said[place] : "none";
  broadcast_text(all, other, from);
  const auto at = static_cast<std::size_t>(least_place);
  throw Agreed(ANELLO_ERR_MISMATCH, text(what, ' ', at, " is ", at < firsts.size() ? firsts[at] : "none",
                                         " on rank 0 and ", other, " on rank ", from, "; all ranks must agree"));
}

}  // namespace anello::gradient_sync
