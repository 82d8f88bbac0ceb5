#pragma once
// How many ranks share how many processors on a rank's host. This decides how a rank waits and how much cache it uses.
#include "control/job.h"

#include <vector>

namespace anello::control {

struct Occupancy {
  int ranks = 1;
  int processors = 1;

  int ranks_per_processor() const { return (ranks + processors - 1) / processors; }
};

// Of the host that `rank` is on.
Occupancy occupancy_of(const std::vector<Member>& members, int rank);

// Whether some host of these ranks has more ranks than processors. All ranks get the same answer. Ranks that share
// memory may have different names for their host.
bool share_processors(const std::vector<Member>& members, const std::vector<int>& ranks);

}  // namespace anello::control
