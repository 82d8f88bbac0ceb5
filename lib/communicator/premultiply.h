#pragma once
// The inputs of a premultiplied sum: this rank's factor scales them first, so that the rest is an ordinary sum. 16- and
// 8-bit floats become float32 in a separate buffer, are summed as float32, and rounded at the end (Staged).
#include "communicator/amounts.h"
#include "executor/operation.h"

#include <string>

namespace anello {

// Empty if the operation's scalar can scale calls of this data type, else the reason why not.
std::string why_not_premultiplied(const CustomOp& op, anello_dtype_t dtype);

// Requires: the operation's dtype, input and output are set, and the rest as Reduction says. Scales the input into the
// place of the result: the caller's buffer in place, else the operation's own memory, from which the result is rounded
// at the end. If there is a result, the operation now works in place.
void premultiply(executor::Operation& operation, const CustomOp& op, bool in_place, const Amounts& amounts);

}  // namespace anello
