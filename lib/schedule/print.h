#pragma once
// Schedules for people: one step as a line, each rank's schedule as a table, and all schedules as a grid of time slots.
#include "schedule/schedule.h"

#include <string>
#include <vector>

namespace anello::schedule {

// "in[0..4)", "rank 2's in[0..4)", "all ranks' in[0..4)": the owner if it is not this rank, the buffer, the first
// element, and one past the last.
std::string describe(const Slice& slice);
// "recv_reduce out[4..8) = rank 3 + in[4..8)".
std::string describe(const Step& step);
const char* name(Kind kind);

// One table per rank: its steps in program order, and the steps that each waits for.
std::string table(const std::vector<Schedule>& schedules);
// Time slots are rows and ranks are columns. Each cell shows what the rank sends (>) and gets (<; + if it is reduced; =
// if it is read from the peer's memory), assuming that a message, a step on peers' memory and a barrier take one slot
// each, whatever their length.
std::string grid(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules);

}  // namespace anello::schedule
