#pragma once
// Plays one rank's part of a program over the public API, and throws Wrong at the first thing that is not as the model
// says.
#include "model/program.h"

namespace anello::model {

// world: the job's communicator, of whose rank job_rank this is. Collective over it.
void play(const Program& program, int job_rank, anello_comm_t world, int timeout_ms);

}  // namespace anello::model
