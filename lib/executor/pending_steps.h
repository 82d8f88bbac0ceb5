#pragma once
// Steps between their issue and their end: what each was for goes on when its engine tells that it is done. Requires
// the rank's lock.
#include "executor/engine.h"

#include <cstdint>

namespace anello::executor {

class Context;

// Gives a step to the engine. True: it is done. Throws ReadFailure.
bool issue(Operation& operation, Ticket::Part part, std::uint32_t index, const ResolvedStep& step);
// Goes on with what has ended since. True: something had.
bool take_completed(Context& context);
// Before the operation ends with an error: its pending steps store nothing any more.
void withdraw(Operation& operation);

}  // namespace anello::executor
