#pragma once
#include "executor/group.h"

namespace anello::executor {

// Of a call that is an exchange: whose lines this rank needs for it (Board::publish).
int lines_needed(const Group& group, const Operation& operation);

// Its Exchange, once plan and buffers are set.
void prepare_exchange(const Group& group, Operation& operation);

// What an exchange step makes of the board's lines, which have come as far as needed: this rank's result. Reductions go in rank
// order with one rounding.
void fold_lines(const Group& group, Operation& operation);

}  // namespace anello::executor
