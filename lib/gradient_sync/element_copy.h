#pragma once
// Gradients on their way into a bucket and out of it: copied, multiplied, rounded to the wire type, looked at for
// infinities, in one pass.
#include <anello/anello.h>

#include <cstddef>

namespace anello::gradient_sync {

// to[i] = from[i] * factor. Types are equal, or one is float32 and the other float16 or bfloat16, whose products are
// made in float32. to may be from where the types are equal. False: check, and a result is infinite or NaN.
bool copy_elements(const void* from, anello_dtype_t from_type, void* to, anello_dtype_t to_type, std::size_t count,
                   double factor, bool check);

// to[i] = from[i] * factor + residual[i], rounded to float16 or bfloat16; residual[i] = what rounding took away, 0
// where that is not finite.
void round_with_feedback(const float* from, float* residual, void* to, anello_dtype_t to_type, std::size_t count,
                         double factor);

}  // namespace anello::gradient_sync
