#pragma once
// The processors of this host, and which of them each rank gets.
#include "anellorun/share.h"

#include <sched.h>

#include <string>
#include <vector>

namespace anellorun {

// How many processors this process may use: its affinity mask, and the quota of its container.
int usable_processors();

// One set for each rank of the share; none for Binding::none. A unit is a core (with all its hardware threads), a
// socket or a NUMA node, as far as this process may use it. With core, rank i gets the i-th unit, and ranks begin again
// at the first unit if there are more ranks. With the others, neighbours share a unit. Throws std::system_error.
std::vector<cpu_set_t> placement(const Share& share);

// "0-3,8": as /sys writes it.
std::string describe(const cpu_set_t& set);

}  // namespace anellorun
