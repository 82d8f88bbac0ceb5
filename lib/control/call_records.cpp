#include "control/call_records.h"

#include "base/text.h"

#include <algorithm>

namespace anello::control {
namespace {

const CallRecord* find(const CallHistory& history, std::uint32_t sequence) {
  for (const CallRecord& record : history.records) {
    if (record.sequence == sequence) return &record;
  }
  return nullptr;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) list += text(i == 0 ? "" : ", ", ranks[i]);
  return list;
}

// Groups of ranks with equal answers, in the order of their lowest rank.
struct Party {
  std::uint64_t digest = 0;
  std::string call;
  std::vector<int> ranks;
};

// Whether the rank has passed that operation and has made so many calls since then that it no longer keeps the call.
bool has_forgotten(const CallHistory& history, std::uint32_t sequence) {
  return history.newest && !before(*history.newest, sequence) && find(history, sequence) == nullptr;
}

template <class DigestOf>
std::vector<Party> parties_at(const std::map<int, CallHistory>& histories, std::uint32_t sequence,
                              DigestOf digest_of_record) {
  std::vector<Party> parties;
  for (const auto& [rank, history] : histories) {
    const CallRecord* const record = find(history, sequence);
    if (record == nullptr) continue;
    const std::uint64_t digest = digest_of_record(*record);
    auto party = std::find_if(parties.begin(), parties.end(), [&](const Party& p) { return p.digest == digest; });
    if (party == parties.end()) party = parties.insert(party, {digest, record->describe(), {}});
    party->ranks.push_back(rank);
  }
  return parties;
}

// The rank to name: one of the smallest group, if there is one.
int odd_one(const std::vector<Party>& parties) {
  const auto smallest = std::min_element(
      parties.begin(), parties.end(), [](const Party& a, const Party& b) { return a.ranks.size() < b.ranks.size(); });
  const auto as_small = std::count_if(parties.begin(), parties.end(),
                                      [&](const Party& p) { return p.ranks.size() == smallest->ranks.size(); });
  return as_small == 1 ? smallest->ranks.front() : -1;
}

}  // namespace

CallHistory history_of(const Ledger& ledger, std::uint32_t sequence) {
  CallHistory history;
  // This comes first, so that a call that is noted meanwhile does not look like a forgotten one.
  if (const auto newest = ledger.newest()) history.newest = newest->sequence;
  for (std::uint32_t back = Ledger::kCompared; back-- > 0;) {
    if (const auto record = ledger.find(sequence - back)) history.records.push_back(*record);
  }
  return history;
}

CallHistory cut_after(const CallHistory& whole, std::uint32_t sequence) {
  CallHistory history = whole;
  std::erase_if(history.records, [&](const CallRecord& record) { return before(sequence, record.sequence); });
  return history;
}

void put_history(Writer& writer, const CallHistory& history) {
  writer.put<std::uint8_t>(history.destroyed ? 1 : 0);
  writer.put<std::uint8_t>(history.newest ? 1 : 0).put(history.newest.value_or(0));
  writer.put(static_cast<std::uint32_t>(history.records.size()));
  for (const CallRecord& record : history.records) {
    writer.put(record.sequence).put(record.kind).put(record.dtype).put(record.op).put(record.root);
    writer.put(std::int32_t(record.refused)).put(record.count).put(record.digest).put(record.algorithm);
    writer.put_text(record.label().c_str());
  }
}

CallHistory take_history(Reader& reader) {
  CallHistory history;
  history.destroyed = reader.take_in<std::uint8_t>(0, 1) != 0;
  const bool called = reader.take_in<std::uint8_t>(0, 1) != 0;
  const auto newest = reader.take<std::uint32_t>();
  if (called) history.newest = newest;
  const auto count = reader.take_in<std::uint32_t>(0, Ledger::kCompared);
  for (std::uint32_t i = 0; i < count; ++i) {
    CallRecord record;
    record.sequence = reader.take<std::uint32_t>();
    record.kind = reader.take<std::int32_t>();
    record.dtype = reader.take<std::int32_t>();
    record.op = reader.take<std::int32_t>();
    record.root = reader.take<std::int32_t>();
    record.refused = static_cast<std::int16_t>(reader.take<std::int32_t>());
    record.count = reader.take<std::uint64_t>();
    record.digest = reader.take<std::uint64_t>();
    record.algorithm = reader.take<std::uint64_t>();
    record.set_label(Label(reader.take_text().c_str()));
    history.records.push_back(record);
  }
  return history;
}

namespace {

// known: the calls of `sequence`, which do not differ; empty if no rank knows its own.
Error forgotten(const std::map<int, CallHistory>& histories, std::uint32_t sequence, const std::vector<Party>& known) {
  std::vector<int> ranks;
  std::optional<std::uint32_t> newest;
  for (const auto& [rank, history] : histories) {
    if (!has_forgotten(history, sequence)) continue;
    ranks.push_back(rank);
    if (!newest || before(*newest, *history.newest)) newest = history.newest;
  }
  std::string said = text("ranks disagree on operation ", sequence, " or one before it: ");
  if (!known.empty()) said += text(rank_list(known.front().ranks), " called ", known.front().call, ", ");
  said += text(rank_list(ranks), ranks.size() == 1 ? ", by now in operation " : ", by now in operations up to ",
               *newest, ranks.size() == 1 ? ", no longer knows its call" : ", no longer know theirs");
  // The ranks that have forgotten their calls may disagree among themselves.
  const bool odd = ranks.size() == 1 && !known.empty() && known.front().ranks.size() > 1;
  return Error(ANELLO_ERR_MISMATCH, said, odd ? ranks.front() : -1);
}

}  // namespace

std::optional<Error> judge(const std::map<int, CallHistory>& histories, std::uint32_t sequence,
                           const std::optional<Differing>& known) {
  for (std::uint32_t back = Ledger::kCompared; back-- > 0;) {
    const std::uint32_t at = sequence - back;
    const std::vector<Party> parties = parties_at(histories, at, [](const CallRecord& r) { return digest_of(r); });
    if (parties.size() < 2) continue;
    std::string said = text("ranks disagree on operation ", at, ": ");
    for (std::size_t i = 0; i < parties.size(); ++i) {
      said += text(i == 0 ? "" : ", ", rank_list(parties[i].ranks), " called ", parties[i].call);
    }
    return Error(ANELLO_ERR_MISMATCH, said, odd_one(parties));
  }
  const std::vector<Party> chains = parties_at(histories, sequence, [](const CallRecord& r) { return r.digest; });
  if (chains.size() >= 2) {
    std::string said = text("ranks disagree on an operation before ", sequence - Ledger::kCompared + 1,
                            ", which no rank remembers; since then all calls are equal. The histories are those of ");
    for (std::size_t i = 0; i < chains.size(); ++i) said += text(i == 0 ? "" : " and of ", rank_list(chains[i].ranks));
    return Error(ANELLO_ERR_MISMATCH, said, odd_one(chains));
  }
  if (known) {
    const auto one = histories.find(known->one), other = histories.find(known->other);
    const auto was_there = [&](auto found) {
      return found != histories.end() && found->second.newest && !before(*found->second.newest, sequence);
    };
    if (was_there(one) && was_there(other) &&
        (has_forgotten(one->second, sequence) || has_forgotten(other->second, sequence))) {
      return forgotten(histories, sequence, chains);
    }
  }
  for (const auto& [rank, history] : histories) {
    if (!history.destroyed || (history.newest && !before(*history.newest, sequence))) continue;
    const std::string when =
        history.newest ? text("after operation ", *history.newest) : std::string("before its first operation");
    return Error(
        ANELLO_ERR_PEER_LOST,
        text("rank ", rank, " left: it destroyed the communicator ", when, ", others are in operation ", sequence),
        rank);
  }
  return std::nullopt;
}

}  // namespace anello::control
