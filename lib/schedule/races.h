#pragma once
// What goes wrong between ranks that touch each other's buffers, whatever the order of events: an access that no
// barrier keeps apart from another rank's to the same elements, one of them a write, or from the end of the owner's
// call, after which the buffer is the caller's. Messages order nothing here: a rank that reads a peer's buffer hears of
// none.
#include "schedule/calls.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "" where there is none. Also where barriers do not pair up: their number differs, or two may change places.
// Requires: slices within their buffers.
std::string find_race(const Calls& calls, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
