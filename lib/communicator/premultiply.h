#pragma once
// The inputs of a premultiplied sum: scaled by this rank's factor before anything else happens to them, so that what
// follows is a sum like any other. 16- and 8-bit floats become float32 beside the caller's buffer, are summed as
// float32, and rounded at the end (Staged).
#include "communicator/amounts.h"
#include "executor/operation.h"

#include <string>

namespace anello {

// Empty when calls of this data type can be scaled by the operation's scalar, else why not.
std::string why_not_premultiplied(const CustomOp& op, anello_dtype_t dtype);

// Requires: of the operation dtype, input and output are set, and the rest as Reduction says. Scales the input into
// where the result will lie: the caller's buffer in place, else memory of the operation's own, from which the result is
// rounded at its end. Where there is a result, the operation works in place now.
void premultiply(executor::Operation& operation, const CustomOp& op, bool in_place, const Amounts& amounts);

}  // namespace anello
