#pragma once
#include "perf/buffer.h"
#include "perf/collective.h"

#include <anello/anello.h>

#include <string>

namespace perf {

// One line for people that says what the library would do for this case, out of place, with such buffers, on this rank.
// Throws Failure.
std::string explained(const Case& of, Memory memory, anello_comm_t comm);

}  // namespace perf
