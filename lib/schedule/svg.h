#pragma once
// Draws schedules: ranks are bands, time goes to the right in slots of one message each, and an arrow is a message.
#include "schedule/calls.h"

#include <string>
#include <vector>

namespace anello::schedule {

// A complete SVG document. Requires: simulate() found no problem.
std::string svg(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
