#pragma once
// The arithmetic of reductions over host memory, per data type and operation, chosen once per call. All functions run
// in the default floating-point environment (DefaultFloats), so a caller's flush-to-zero does not change bits. Pointers
// may have any alignment. Ranges are equal or disjoint.
//
// The bits are the same on every processor, whatever instructions it has:
// integers wrap; MIN, MAX, MINLOC and MAXLOC treat -0 as less than +0 and are NaN if either operand is; every NaN that
// is computed or rounded (not merely copied or widened) is the positive quiet NaN with an empty payload; denormals are
// kept; 16- and 8-bit floats are rounded to nearest even from float32; AVG divides the sum by ranks in
// the accumulator's type, and integers truncate towards zero.
#include "base/dtype.h"
#include "kernels/default_floats.h"

#include <cstddef>

namespace anello::kernels {

struct Reducer {
  std::size_t element_bytes = 0;
  std::size_t accumulator_bytes = 0;  // of one accumulator element; equal to element_bytes if it is the same type
  // True if partial results are formed in a wider type and must not be sent (SUM, PROD, AVG of 16- and 8-bit floats).
  bool accumulates = false;
  // True if finish does more than copy or round (AVG).
  bool finishes = false;

  // into[i] = left[i] op right[i], all of the data type. into may equal left or right.
  void (*reduce)(void* into, const void* left, const void* right, std::size_t count) = nullptr;
  // As above, and also stores the result to twin[i]. twin may equal left or right, but not into.
  void (*reduce_twice)(void* into, void* twin, const void* left, const void* right, std::size_t count) = nullptr;
  // into[d][i], for all d, = from[0][i] op from[1][i] op .., in this order; AVG is divided by `sources`, and wider
  // results are rounded once. There are at least two sources; a destination may be a source. It is null for products of
  // complex numbers.
  void (*reduce_all)(void* const* into, int destinations, const void* const* from, int sources,
                     std::size_t count) = nullptr;
  // accumulator[i] = from[i].
  void (*widen)(void* accumulator, const void* from, std::size_t count) = nullptr;
  // accumulator[i] = accumulator[i] op from[i].
  void (*accumulate)(void* accumulator, const void* from, std::size_t count) = nullptr;
  // into[i] = accumulator[i], divided by ranks for AVG, rounded once (to nearest even).
  void (*finish)(void* into, const void* accumulator, std::size_t count, int ranks) = nullptr;
  // As above, from the data type itself; into may equal from. For AVG whose partial results have the data type.
  void (*finish_in_type)(void* into, const void* from, std::size_t count, int ranks) = nullptr;
  // accumulator[i] = *factor * from[i]; factor has the accumulator type. Only SUM has it, but not for bool.
  void (*scale)(void* accumulator, const void* from, const void* factor, std::size_t count) = nullptr;
};

// A pair for which makes_sense is false has a row without functions, which is enough to move elements.
// Requires: both are known (is_dtype, is_op). Returns the best variant for this processor, chosen at first use.
const Reducer& reducer(anello_dtype_t dtype, anello_op_t op);

}  // namespace anello::kernels
