#pragma once
// How many ranks share how many processors on a rank's host: by that a rank waits, and takes room in a cache.
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

}  // namespace anello::control
