#pragma once
// Schedules for people: one step as a line, all ranks' schedules as a table each, and as a grid of time slots.
#include "schedule/schedule.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "in[0..4)", "rank 2's in[0..4)", "all ranks' in[0..4)": whose, if not this rank's, which buffer, first element, one
// past the last.
std::string describe(const Slice& slice);
// "recv_reduce out[4..8) = rank 3 + in[4..8)".
std::string describe(const Step& step);
const char* name(Kind kind);

// One table a rank: steps in program order and the steps that each waits for.
std::string table(const std::vector<Schedule>& schedules);
// Time slots downwards, ranks across: what each sends (>) and gets (<; where it is reduced, +; where it is read from
// the peer's memory, =) if a message, a step on peers' memory and a barrier take a slot each, whatever their length.
std::string grid(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
