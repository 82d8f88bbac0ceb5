#pragma once
// Checks of all ranks' schedules before any step runs: slices lie within buffers that their steps may access, and sends
// and receives match in number and size.
#include "schedule/calls.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "" if the schedules are well-formed, else the first error.
std::string why_malformed(const Calls& calls, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
