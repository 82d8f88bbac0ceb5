#pragma once
// The arithmetic of reductions over host memory, per data type and operation, chosen once per call. All of it runs in
// the default floating-point environment (DefaultFloats), so that a caller's flush-to-zero does not change bits.
// Pointers need the alignment of one byte only. Ranges are equal or disjoint.
//
// The bits are the same on every processor, whatever instructions it has:
// integers wrap; MIN, MAX, MINLOC and MAXLOC take -0 to be less than +0 and are NaN where either operand is; every NaN
// that is computed or rounded (not merely copied or widened) is the positive quiet NaN with an empty payload; denormals
// are kept; 16- and 8-bit floats are rounded to nearest even from float32; AVG divides the sum by ranks in
// the accumulator's type, integers truncating towards zero.
#include "base/dtype.h"
#include "kernels/default_floats.h"

#include <cstddef>

namespace anello::kernels {

struct Reducer {
  std::size_t element_bytes = 0;
  std::size_t accumulator_bytes = 0;  // of one accumulator element; equal to element_bytes where it is the same type
  // True where partial results are formed in a wider type and must not travel (SUM, PROD, AVG of 16- and 8-bit floats).
  bool accumulates = false;
  // True where finish does more than copy or round (AVG).
  bool finishes = false;

  // into[i] = left[i] op right[i], all of the data type. into may equal left or right.
  void (*reduce)(void* into, const void* left, const void* right, std::size_t count) = nullptr;
  // The same, stored to twin[i] too, which may equal left or right as well, but not into.
  void (*reduce_twice)(void* into, void* twin, const void* left, const void* right, std::size_t count) = nullptr;
  // into[d][i], for all d, = from[0][i] op from[1][i] op .., in this order, AVG divided by `sources`, what is wider
  // rounded once. Two sources at least; a destination may be a source. Null of products of complex numbers.
  void (*reduce_all)(void* const* into, int destinations, const void* const* from, int sources,
                     std::size_t count) = nullptr;
  // accumulator[i] = from[i].
  void (*widen)(void* accumulator, const void* from, std::size_t count) = nullptr;
  // accumulator[i] = accumulator[i] op from[i].
  void (*accumulate)(void* accumulator, const void* from, std::size_t count) = nullptr;
  // into[i] = accumulator[i], divided by ranks for AVG, rounded once (to nearest even).
  void (*finish)(void* into, const void* accumulator, std::size_t count, int ranks) = nullptr;
  // The same from the data type itself; into may equal from. For AVG where partial results are of the data type.
  void (*finish_in_type)(void* into, const void* from, std::size_t count, int ranks) = nullptr;
  // accumulator[i] = *factor * from[i], factor of the accumulator type. Of SUM alone, and not of bool.
  void (*scale)(void* accumulator, const void* from, const void* factor, std::size_t count) = nullptr;
};

// What makes no sense together (makes_sense) has a row without functions: movement needs no more.
// Requires: both are known (is_dtype, is_op). The best variant for this processor, settled on first use.
const Reducer& reducer(anello_dtype_t dtype, anello_op_t op);

}  // namespace anello::kernels
