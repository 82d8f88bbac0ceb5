#pragma once
// Applies an operation to two operands, or to two vectors of operands. It is in an unnamed namespace, as reduce_loops.h
// explains.
#include "kernels/elements.h"
#include "base/float16.h"
#include "kernels/float8.h"
#include "kernels/locate.h"
#include "kernels/select.h"

namespace anello::kernels {
namespace {

// The type in which sums of T are formed. Operations that select or locate need no wider type.
template <class T, class Accumulator, anello_op_t op>
using SumOf = std::conditional_t<op == ANELLO_MIN || op == ANELLO_MAX, T, Accumulator>;

// Any non-zero byte is true; results are 0 or 1.
template <anello_op_t op>
ANELLO_INLINE Bool combine_bools(Bool left, Bool right) {
  const std::uint8_t l = left.bits, r = right.bits;
  if constexpr (op == ANELLO_SUM || op == ANELLO_MAX || op == ANELLO_BOR || op == ANELLO_LOR) {
    return {static_cast<std::uint8_t>((l | r) != 0 ? 1 : 0)};
  } else if constexpr (op == ANELLO_PROD || op == ANELLO_MIN || op == ANELLO_BAND || op == ANELLO_LAND) {
    return {static_cast<std::uint8_t>((l < r ? l : r) != 0 ? 1 : 0)};
  } else {
    static_assert(op == ANELLO_BXOR || op == ANELLO_LXOR, "a new operation says here what it makes of bools");
    return {static_cast<std::uint8_t>((l != 0 ? 1 : 0) ^ (r != 0 ? 1 : 0))};
  }
}

template <anello_op_t op, class Integer>
ANELLO_INLINE Integer combine_integers(Integer left, Integer right) {
  // Unsigned and at least as wide as int: the product of two uint16 would overflow a signed int.
  using Wide = std::conditional_t<sizeof(Integer) == 8, std::uint64_t, std::uint32_t>;
  const Wide l = static_cast<Wide>(left), r = static_cast<Wide>(right);
  constexpr Integer kZero = 0, kOne = 1;
  if constexpr (op == ANELLO_PROD) {
    return static_cast<Integer>(l * r);
  } else if constexpr (op == ANELLO_BAND) {
    return static_cast<Integer>(l & r);
  } else if constexpr (op == ANELLO_BOR) {
    return static_cast<Integer>(l | r);
  } else if constexpr (op == ANELLO_BXOR) {
    return static_cast<Integer>(l ^ r);
  } else if constexpr (op == ANELLO_LAND) {
    return left == kZero ? kZero : right == kZero ? kZero : kOne;
  } else if constexpr (op == ANELLO_LOR) {
    return static_cast<Integer>(left | right) == kZero ? kZero : kOne;
  } else if constexpr (op == ANELLO_LXOR) {
    return static_cast<Integer>((left == kZero ? kZero : kOne) ^ (right == kZero ? kZero : kOne));
  } else {
    static_assert(op == ANELLO_SUM || op == ANELLO_AVG, "a new operation says here what it makes of integers");
    return static_cast<Integer>(l + r);
  }
}

// For floats. The NaN of the result is unspecified: callers round the result, which maps all NaNs to one.
template <anello_op_t op, class A>
ANELLO_INLINE A combine_loosely(A left, A right) {
  static_assert(op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD, "a new operation says here what it does");
  if constexpr (op == ANELLO_PROD) {
    return left * right;
  } else {
    return left + right;
  }
}

// Operands of an accumulator type, or vectors of float32.
template <anello_op_t op, class A>
ANELLO_INLINE A combine(A left, A right) {
  if constexpr (op == ANELLO_MINLOC || op == ANELLO_MAXLOC) {
    return locate<op>(left, right);
  } else if constexpr (std::is_same_v<A, Bool>) {
    return combine_bools<op>(left, right);
  } else if constexpr (op == ANELLO_MIN || op == ANELLO_MAX) {
    return select<op>(left, right);
  } else if constexpr (std::is_integral_v<A>) {
    return combine_integers<op>(left, right);
  } else {
    return canonical(combine_loosely<op>(left, right));
  }
}

template <class A>
ANELLO_INLINE A divided(A sum, int ranks) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(sum / static_cast<std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>>(ranks));
  } else if constexpr (std::is_same_v<A, double>) {
    return canonical(sum / static_cast<double>(ranks));
  } else {
    return canonical(sum / static_cast<float>(ranks));
  }
}

// Converts between a type and its accumulator. If they are the same type, nothing happens.
template <class A, class T>
ANELLO_INLINE A widened(T value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T, class A>
ANELLO_INLINE T narrowed(A value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    T rounded;
    round_to(rounded, value);
    return rounded;
  }
}

// Computes sums and products of bfloat16 in pairs: a mask or a shift turns each half of a 32-bit word into a float32
// and back. For single elements, GCC 12 spends most of the time on unpacking and packing.
template <anello_op_t op>
ANELLO_INLINE std::uint32_t combine_pair(std::uint32_t left, std::uint32_t right) {
  BFloat16 low, high;
  round_to(low, combine_loosely<op>(__builtin_bit_cast(float, left << 16), __builtin_bit_cast(float, right << 16)));
  round_to(high, combine_loosely<op>(__builtin_bit_cast(float, left & 0xffff0000u),
                                     __builtin_bit_cast(float, right & 0xffff0000u)));
  return low.bits | std::uint32_t{high.bits} << 16;
}

}  // namespace
}  // namespace anello::kernels
