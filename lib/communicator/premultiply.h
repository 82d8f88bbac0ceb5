#pragma once
// The inputs of a premultiplied sum: scaled by this rank's factor before anything else happens to them, so that what follows
// is a sum like any other.
#include "executor/operation.h"

#include <string>

namespace anello {

// Empty when calls of this data type can be scaled by the operation's scalar, else why not.
std::string why_not_premultiplied(const CustomOp& op, anello_dtype_t dtype);

// Requires: of the operation dtype, input and output are set. Scales `inputs` elements of the input; 16- and 8-bit floats
// become float32 and the operation one of float32, whose result (`outputs` elements, none for 0) is rounded at its end. True: the
// operation works in place now.
bool premultiply(executor::Operation& operation, const CustomOp& op, bool in_place, std::size_t inputs, std::size_t outputs);

}  // namespace anello
