#pragma once
// Calls the caller's own functions.
#include "base/custom_op.h"

namespace anello::executor {

// Whether this thread is inside one, under a rank's lock: it must not enter Anello again.
bool inside_user_function();

// False: the function threw.
bool call_user_function(const CustomOp& op, void* into, const void* left, const void* right, std::size_t count,
                        anello_dtype_t dtype);

}  // namespace anello::executor
