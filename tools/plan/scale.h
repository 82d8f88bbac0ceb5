#pragma once
// anello-plan scale: what each algorithm for a call costs a rank, at up to 65,536 ranks.
#include "request.h"

namespace anello::plan {

// Prints it. Returns the exit code.
int scale(const Request& request);

}  // namespace anello::plan
