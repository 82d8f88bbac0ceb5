#pragma once
// The table behind choose(), for those who want to see why: anello-plan explain, tests.
#include "schedule/catalog.h"

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anello::schedule {

enum class Where : unsigned char {
  anywhere,
  memory,   // all ranks meet in memory
  shared,   // and have staging memory: those of a host, but for threads, which reach all of each other's
  network,  // some pair of them over a network
};
constexpr std::string_view kWheres[] = {"anywhere", "memory", "shared", "network"};
inline std::string_view name(Where where) { return kWheres[static_cast<int>(where)]; }

// Where there are more ranks than processors, what counts is how often ranks change places. bound: there, and each may
// run on some of the processors only, so that it is known who shares one. few: to at most kFewProcessors, so that what
// one of a processor's ranks exchanges whole with the others costs less than what it saves at home. nested: several
// hosts, one of them with several ranks.
enum class Crowd { any, crowded, bound, few, nested };
constexpr int kFewProcessors = 4;

// One line of the table. The first whose conditions hold and whose algorithm fits the call is taken.
struct Rule {
  Collective collective;
  Where where;
  std::size_t up_to_bytes;        // of one rank's payload
  std::size_t up_to_bytes_total;  // of all ranks' payloads
  std::string_view algorithm;     // of the catalog
  std::size_t chunk_bytes;        // of a measured table's also 0: as the next rule that holds has it
  Reach reach = Reach::none;      // what ranks must be able to do with each other's buffers, at least
  std::size_t from_bytes = 0;     // of one rank's payload
  int from_ranks = 1;
  int up_to_ranks = INT_MAX;
  int line = 0;  // of a measured table (tuning.h)
  Crowd crowd = Crowd::any;
};

const std::vector<Rule>& rules();
// On what its thresholds were measured, for people.
std::string_view rules_measured_on();

struct Decision {
  Choice choice;
  const Rule* rule = nullptr;  // of rules(), or of the wish's table; nullptr: the wish for an algorithm decided
  std::string why;             // a sentence or two for people
};

// choose() with its reasons.
Decision decide(const Call& call, const Topology& topology, const Wish& wish = {});

}  // namespace anello::schedule
