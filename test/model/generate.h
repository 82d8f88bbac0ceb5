#pragma once
#include "model/program.h"

namespace anello::model {

// A legal program for a job of that many ranks, of which it may use fewer.
Program generate(std::uint64_t seed, int job_ranks);

}  // namespace anello::model
