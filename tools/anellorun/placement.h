#pragma once
// The processors on which each rank may run.
#include "anellorun/share.h"

#include <sched.h>

#include <vector>

namespace anellorun {

// One set per rank for Binding::core, none for Binding::none. Rank i gets all hardware threads of the i-th core among
// the processors that the launcher itself may use; with more ranks than cores it starts again at the first.
// Throws std::system_error.
std::vector<cpu_set_t> placement(const Share& share);

}  // namespace anellorun
