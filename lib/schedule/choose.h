#pragma once
// The table behind choose(), for those who want to see why: anello-plan explain, tests.
#include "schedule/catalog.h"

#include <climits>
#include <cstddef>
#include <cstdint>
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

// Which collectives a rule is for.
class Collectives {
 public:
  constexpr Collectives() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one of them is such a set.
  constexpr Collectives(Collective one) : bits_(1u << static_cast<unsigned>(one)) {}
  constexpr bool has(Collective one) const { return (bits_ & Collectives(one).bits_) != 0; }
  friend constexpr Collectives operator|(Collectives a, Collectives b) { return Collectives(a.bits_ | b.bits_); }

 private:
  explicit constexpr Collectives(unsigned bits) : bits_(bits) {}
  unsigned bits_ = 0;
};
constexpr Collectives operator|(Collective a, Collective b) { return Collectives(a) | Collectives(b); }

// One line of the table. The first whose conditions hold, and whose algorithm there is and fits the call, is taken.
struct Rule {
  Collectives collectives;
  Where where = Where::anywhere;
  Crowd crowd = Crowd::any;
  int from_ranks = 1;
  int up_to_ranks = INT_MAX;
  Reach reach = Reach::none;                 // what ranks must be able to do with each other's buffers, at least
  Space space = Space::host;                 // where these lie
  std::size_t from_bytes = 0;                // of one rank's payload
  std::size_t from_bytes_each = 0;           // of one rank's payload, for each rank
  std::size_t up_to_bytes = SIZE_MAX;        // of one rank's payload
  std::size_t up_to_bytes_total = SIZE_MAX;  // of all ranks' payloads
  std::size_t up_to_bytes_each = SIZE_MAX;   // of one rank's payload, for each rank
  std::string_view algorithm;                // of the catalog
  std::size_t chunk_bytes = 0;  // 0: as the next rule for the algorithm has it, or as is usual in the place
  std::string_view why;         // for people; empty in a measured table
  int line = 0;                 // of a measured table (tuning.h)
};

// The library's own (rules.cpp).
const std::vector<Rule>& rules();
// On what its thresholds were measured, for people.
std::string_view rules_measured_on();

struct Decision {
  Choice choice;               // no algorithm: the call is not for devices
  const Rule* rule = nullptr;  // of rules(), or of the wish's table; nullptr: the wish for an algorithm decided
  std::string why;             // some sentences for people

  // Nobody asked for the algorithm, and no measured table did.
  bool by_library() const { return rule != nullptr && rule->line == 0; }
};

// choose() with its reasons.
Decision decide(const Call& call, const Topology& topology, const Wish& wish = {});

}  // namespace anello::schedule
