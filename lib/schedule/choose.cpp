#include "schedule/choose.h"

#include "base/text.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"
#include "schedule/tuning.h"

#include <algorithm>
#include <cstdint>

namespace anello::schedule {
namespace {

constexpr std::size_t kKiB = 1024;
// With more ranks than processors each hand-over may cost a time slice: fewer, larger chunks.
constexpr std::size_t kOversubscribedFactor = 4;
// Chunks begin at multiples of this in their block, so that vector loads stay aligned where the caller's buffer is.
constexpr std::size_t kAlignBytes = 64;

// Where no rule says it. In memory a chunk and its copy stay in a processor's own caches; over a network it is worth
// its system calls. Between two ranks nobody forwards.
std::size_t usual_chunk_bytes(const Topology& topology) {
  if (!topology.network) return 64 * kKiB;
  return (topology.size == 2 ? 512 : 128) * kKiB;
}

std::size_t chunk_for(const Call& call, const Topology& topology, const Algorithm& algorithm, std::size_t chunk_bytes) {
  const auto size = static_cast<std::size_t>(topology.size);
  const std::size_t longest = algorithm.cuts_blocks ? call.count / size + 1 : call.count;
  const std::size_t least = longest / algorithm.most_chunks + (longest % algorithm.most_chunks != 0 ? 1 : 0);
  std::size_t chunk = std::max({chunk_bytes / call.element_bytes, least, std::size_t{1}});
  const std::size_t align = std::max<std::size_t>(kAlignBytes / call.element_bytes, 1);
  if (chunk > align) chunk = (chunk + align - 1) / align * align;
  return chunk;
}

struct WishItem {
  std::string_view collective;  // empty: all that have the algorithm
  std::string_view algorithm;
};

// "ring" or "allreduce:ring,broadcast:tree", cut up.
std::vector<WishItem> items(const Wish& wish) {
  std::vector<WishItem> result;
  std::string_view rest = wish.algorithm;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      result.push_back({{}, item});
    else
      result.push_back({item.substr(0, colon), item.substr(colon + 1)});
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return result;
}

// What the wish says for this collective, a pair before a bare name; empty for nothing.
std::string_view wished(const Wish& wish, Collective collective) {
  std::string_view bare;
  for (const WishItem& item : items(wish)) {
    if (item.collective == name(collective)) return item.algorithm;
    if (item.collective.empty() && find(collective, item.algorithm) != nullptr) bare = item.algorithm;
  }
  return bare;
}

std::size_t payload_bytes(const Call& call, const Topology& topology) {
  return largest_input(call, topology.size) * call.element_bytes;
}

bool fits_crowd(Crowd crowd, const Topology& topology) {
  if (crowd == Crowd::any) return true;
  if (crowd == Crowd::crowded) return topology.oversubscribed;
  if (crowd == Crowd::nested) return is_nested(topology);
  const auto few = [&] { return std::ranges::max(topology.processors_of) < kFewProcessors; };
  return takes_turns_bound(topology) && (crowd == Crowd::bound || few());
}

bool fits_place(Where where, const Topology& topology) {
  if (where == Where::anywhere) return true;
  if (where == Where::shared) return !topology.network && topology.staging_bytes > 0;
  return (where == Where::network) == topology.network;
}

bool holds(const Rule& rule, const Call& call, const Topology& topology) {
  const std::size_t bytes = payload_bytes(call, topology);
  const auto ranks = static_cast<std::size_t>(topology.size);
  return rule.collectives.has(call.collective) && fits_crowd(rule.crowd, topology) &&
         fits_place(rule.where, topology) && topology.size >= rule.from_ranks && topology.size <= rule.up_to_ranks &&
         call.reach >= rule.reach && call.space == rule.space && bytes >= rule.from_bytes &&
         bytes / ranks >= rule.from_bytes_each && bytes <= rule.up_to_bytes &&
         bytes <= rule.up_to_bytes_total / ranks && bytes / ranks <= rule.up_to_bytes_each;
}

std::string name_of(const Rule& rule, const Wish& wish) {
  if (rule.line > 0) return text("Line ", rule.line, " of ", wish.tuning->from);
  return text("Rule ", &rule - rules().data() + 1, " of ", rules().size());
}

// Whether the row would do this call if ranks had this reach.
bool could_reach(Call call, Reach reach, const Topology& topology, const Algorithm& row) {
  call.reach = reach;
  return row.fits(call, topology);
}

std::string collective_names() {
  std::string names;
  for (const Collective each : kCollectives) names += text(names.empty() ? "" : ", ", name(each));
  return names;
}

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& row : catalog())
    if (row.collective == collective) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace

Decision decide(const Call& call, const Topology& topology, const Wish& wish) {
  Decision decision;
  if (call.space != Space::host && topology.size > kMostOnDevices) {
    decision.why = text("It goes through the host: a kernel takes operands of ", kMostOnDevices, " ranks. ");
    return decision;
  }
  const std::string_view wanted = call.algorithm.empty() ? wished(wish, call.collective) : call.algorithm;
  const std::string who = call.algorithm.empty() ? " was asked for" : " was asked for by the call";
  if (!wanted.empty()) {
    const Algorithm* row = find(call.collective, wanted);
    if (call.space != Space::host && (row == nullptr || could_reach(call, Reach::none, topology, *row))) {
      decision.why = text(wanted, who, ", which works through the host. ");
      return decision;
    }
    if (row != nullptr && row->fits(call, topology)) {
      decision.choice.algorithm = row;
      decision.why = text(wanted, who, ". ");
    } else if (row != nullptr) {
      const bool reach_is_all = could_reach(call, Reach::store, topology, *row);
      decision.why = text(wanted, who, ", but does not fit ",
                          reach_is_all ? "where ranks cannot reach each other's buffers. " : "this call. ");
    } else {  // a pair that names another collective's algorithm
      decision.why = text(wanted, who, ", but ", name(call.collective), " has no such algorithm. ");
    }
  }
  std::size_t chunk_bytes = wish.chunk_bytes;
  const std::size_t crowd_factor = topology.oversubscribed ? kOversubscribedFactor : 1;
  const auto take = [&](const Rule& rule) {
    if (!holds(rule, call, topology)) return;
    const Algorithm* row = find(call.collective, rule.algorithm);
    if (row == nullptr || !row->fits(call, topology)) return;
    if (decision.choice.algorithm == nullptr) {
      decision.choice.algorithm = row;
      decision.rule = &rule;
      decision.why +=
          text(name_of(rule, wish), " is the first that holds and fits: ", row->name, ", ", row->what, ". ");
      if (!rule.why.empty()) decision.why += text("Its reason: ", rule.why, ". ");
      if (rule.reach != Reach::none)
        decision.why += text("It needs ranks to ", rule.reach == Reach::store ? "load and store" : "load",
                             " each other's buffers, which they can. ");
    }
    // Also under a wish for an algorithm: the chunk is that of the first rule for it that says one.
    // A measured table's was found with as many ranks.
    if (chunk_bytes == 0 && row == decision.choice.algorithm)
      chunk_bytes = rule.chunk_bytes * (rule.line == 0 ? crowd_factor : 1);
  };
  for (const std::vector<Rule>* table : {wish.tuning ? &wish.tuning->rules : nullptr, &rules()}) {
    if (table == nullptr) continue;
    for (const Rule& rule : *table) take(rule);
  }
  if (decision.choice.algorithm == nullptr) {
    decision.why += "No rule for devices holds: the call goes through the host. ";
    return decision;
  }
  if (chunk_bytes == 0) chunk_bytes = usual_chunk_bytes(topology) * crowd_factor;
  decision.choice.chunk = chunk_for(call, topology, *decision.choice.algorithm, chunk_bytes);
  return decision;
}

Choice choose(const Call& call, const Topology& topology, const Wish& wish) {
  return decide(call, topology, wish).choice;
}

bool profits_from_reach(Call call, const Topology& topology, const Wish& wish) {
  for (const Reach reach : {Reach::read, Reach::store}) {
    call.reach = reach;
    if (!could_reach(call, Reach::none, topology, *choose(call, topology, wish).algorithm)) return true;
  }
  return false;
}

std::string names_that_fit(const Call& call, const Topology& topology) {
  std::string names;
  for (const Algorithm& row : catalog()) {
    if (row.collective == call.collective && row.fits(call, topology))
      names += text(names.empty() ? "" : ", ", row.name);
  }
  return names;
}

std::string why_not(const Wish& wish) {
  for (const WishItem& item : items(wish)) {
    bool collective_known = false;
    bool algorithm_known = false;
    std::string there_is;
    for (const Collective each : kCollectives) {
      if (!item.collective.empty() && item.collective != name(each)) continue;
      collective_known = true;
      algorithm_known = algorithm_known || find(each, item.algorithm) != nullptr;
      there_is += text(there_is.empty() ? "" : "; ", name(each), " has ", names_for(each));
    }
    if (!collective_known) return text("'", item.collective, "' is no collective; there are ", collective_names());
    if (!algorithm_known) return text("there is no algorithm '", item.algorithm, "': ", there_is);
  }
  return "";
}

}  // namespace anello::schedule
