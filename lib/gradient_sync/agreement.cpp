#include "gradient_sync/agreement.h"

#include "gradient_sync/collective.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>

namespace anello::gradient_sync {
namespace {

constexpr std::int64_t kNone = INT64_MAX;

int rank_in(anello_comm_t comm) {
  int rank = 0;
  check(comm, anello_comm_rank(comm, &rank), "rank");
  return rank;
}

std::int64_t least(anello_comm_t comm, std::int64_t value) {
  check(comm, anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_INT64, ANELLO_MIN, comm), "agreeing with the other ranks");
  return value;
}

void broadcast_text(anello_comm_t comm, std::string& text, int root) {
  std::uint64_t bytes = text.size();
  check(comm, anello_broadcast(&bytes, 1, ANELLO_UINT64, root, comm), "agreeing with the other ranks");
  text.resize(bytes);
  check(comm, anello_broadcast(text.data(), bytes, ANELLO_BYTE, root, comm), "agreeing with the other ranks");
}

// Each with its length before it, so that no two lists become the same bytes.
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

void agree(anello_comm_t comm, const std::optional<Error>& objection) {
  const int rank = rank_in(comm);
  const std::int64_t first = least(comm, objection ? rank : kNone);
  if (first == kNone) return;
  const auto from = static_cast<int>(first);
  std::int32_t code = objection ? objection->code() : ANELLO_OK;
  std::string said = objection ? objection->text() : "";
  check(comm, anello_broadcast(&code, 1, ANELLO_INT32, from, comm), "agreeing with the other ranks");
  broadcast_text(comm, said, from);
  throw Error(static_cast<anello_result_t>(code), text("rank ", from, ": ", said));
}

void agree_on(anello_comm_t comm, const char* what, const std::vector<std::string>& said) {
  const int rank = rank_in(comm);
  std::string all = packed(said);
  broadcast_text(comm, all, 0);
  const std::vector<std::string> firsts = unpacked(all);
  const std::size_t both = std::min(firsts.size(), said.size());
  std::size_t place = 0;
  while (place < both && firsts[place] == said[place]) ++place;
  const bool differs = place < firsts.size() || place < said.size();
  const std::int64_t least_place = least(comm, differs ? static_cast<std::int64_t>(place) : kNone);
  if (least_place == kNone) return;
  const bool mine = differs && static_cast<std::int64_t>(place) == least_place;
  const auto from = static_cast<int>(least(comm, mine ? rank : INT_MAX));
  std::string other = !mine ? "" : place < said.size() ? said[place] : "none";
  broadcast_text(comm, other, from);
  const auto at = static_cast<std::size_t>(least_place);
  throw Error(ANELLO_ERR_MISMATCH, text(what, ' ', at, " is ", at < firsts.size() ? firsts[at] : "none", " on rank 0 and ", other,
                                        " on rank ", from, "; all ranks must say the same"));
}

}  // namespace anello::gradient_sync
