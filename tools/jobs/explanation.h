#pragma once
// Says, from what the ranks of a job show or have written, which rank stopped first and why. Pure: no files, no clock.
#include "recorder/snapshot.h"

#include <string>
#include <vector>

namespace jobs {

// For each job among them a paragraph, and a line for each rank and communicator.
std::string explain(const std::vector<anello::recorder::Snapshot>& shown);

// What the rank does in the communicator: "in operation 41, allreduce(count 1000, float32, sum), waits for data from
// rank 2".
std::string doing(const anello::recorder::Snapshot& shown);

}  // namespace jobs
