#pragma once
#include "executor/group.h"

namespace anello::executor {

// What an exchange step makes of the board's lines, all of which have come: this rank's result. Reductions go in rank
// order with one rounding.
void fold_lines(const Group& group, Operation& operation);

}  // namespace anello::executor
