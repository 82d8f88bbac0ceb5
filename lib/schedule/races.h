#pragma once
// Finds races between ranks that access each other's buffers, for every order of events: two accesses to the same
// elements, at least one of them a write, that no barrier separates; or an access that no barrier separates from the
// end of the owner's call, after which the buffer belongs to the caller. Messages order nothing here: a rank that reads
// a peer's buffer sees no messages.
#include "schedule/calls.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "" if there is no race. Also reports barriers that do not match: their number differs, or two may be reordered.
// Requires: slices within their buffers.
std::string find_race(const Calls& calls, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
