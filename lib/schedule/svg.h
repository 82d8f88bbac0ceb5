#pragma once
// Schedules as a drawing: ranks as bands, time to the right in slots of one message each, an arrow a message.
#include "schedule/schedule.h"

#include <string>
#include <vector>

namespace anello::schedule {

// A complete SVG document. Requires: simulate() found no problem.
std::string svg(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
