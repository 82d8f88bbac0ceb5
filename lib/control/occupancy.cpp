#include "control/occupancy.h"

#include <set>
#include <string>

namespace anello::control {

Occupancy occupancy_of(const std::vector<Member>& members, int rank) {
  const Member& self = members[std::size_t(rank)];
  Occupancy found{0, 0};
  Processors processors;
  for (const Member& member : members) {
    if (member.host != self.host) continue;
    ++found.ranks;
    processors.join(member.processors);
  }
  found.processors = processors.count();
  return found;
}

bool share_processors(const std::vector<Member>& members, const std::vector<int>& ranks) {
  std::set<std::string> hosts;
  for (const int rank : ranks) {
    if (!hosts.insert(members[std::size_t(rank)].host).second) continue;
    if (occupancy_of(members, rank).ranks_per_processor() > 1) return true;
  }
  return false;
}

}  // namespace anello::control
