#include "control/occupancy.h"

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

}  // namespace anello::control
