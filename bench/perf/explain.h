#pragma once
#include "perf/collective.h"

#include <anello/anello.h>

#include <string>

namespace perf {

// One line for people: what the library would do for this case, out of place, on this rank. Throws Failure.
std::string explained(const Case& of, anello_comm_t comm);

}  // namespace perf
