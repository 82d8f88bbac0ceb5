#pragma once
// The work of one rank, from its communicator to its part of the report.
#include "perf/options.h"

#include <anello/anello.h>

namespace perf {

inline constexpr int kExitWrong = 1;
inline constexpr int kExitFailure = 3;

// Collective over comm; rank 0 prints. Returns the exit code, equal on all ranks. Throws Failure, and on rank 0
// std::runtime_error when the JSON file cannot be written.
int run_rank(const Options& options, anello_comm_t comm);

}  // namespace perf
