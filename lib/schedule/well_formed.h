#pragma once
// What can be said of all ranks' schedules before any step runs: slices lie within buffers that their steps may touch,
// sends and receives pair up in count and size.
#include "schedule/calls.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "" where they are, else the first thing that is not.
std::string why_malformed(const Calls& calls, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
