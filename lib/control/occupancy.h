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

// Whether on some host of these ranks more ranks than processors are: the same for whoever asks. Ranks that share
// memory may call their host by different names.
bool share_processors(const std::vector<Member>& members, const std::vector<int>& ranks);

}  // namespace anello::control
