#pragma once
// Copies gradients into a bucket and out of it: in one pass it copies, multiplies, rounds to the wire type, and checks
// for infinities.
#include <anello/anello.h>

#include <cstddef>

namespace anello::gradient_sync {

// to[i] = from[i] * factor. Types are equal, or one is float32 and the other float16 or bfloat16, whose products are
// formed in float32. to may equal from if the types are equal. Returns false if check is set and a result is infinite
// or NaN.
bool copy_elements(const void* from, anello_dtype_t from_type, void* to, anello_dtype_t to_type, std::size_t count,
                   double factor, bool check);

// to[i] = from[i] * factor + residual[i], rounded to float16 or bfloat16; residual[i] = the rounding error, or 0 if it
// is not finite.
void round_with_feedback(const float* from, float* residual, void* to, anello_dtype_t to_type, std::size_t count,
                         double factor);

}  // namespace anello::gradient_sync
