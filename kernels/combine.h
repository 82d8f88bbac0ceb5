#pragma once
// What an operation makes of two operands, or of two vectors of them. In an unnamed namespace, as reduce_loops.h
// explains.
#include "kernels/elements.h"
#include "kernels/float16.h"


namespace anello::kernels {
namespace {

template <anello_op_t op, class Integer>
[[gnu::always_inline]] inline Integer extreme(Integer left, Integer right) {
  if constexpr (op == ANELLO_MIN) {
    return left < right ? left : right;
  } else {
    return left > right ? left : right;
  }
}

// MIN and MAX of floats by their bits: flipping the magnitude of negative numbers makes integer order of float order,
// with -0 just below +0.
template <anello_op_t op, class T>
[[gnu::always_inline]] inline T select(T left, T right) {
  if constexpr (kFloating<T>) {
    using Bits = typename SignedOf<sizeof(T)>::type;
    constexpr Bits kMagnitude = static_cast<Bits>(~(std::uint64_t{1} << (8 * sizeof(T) - 1)));
    constexpr Bits kInfinity = static_cast<Bits>(Format<T>::infinity);
    constexpr Bits kNan = static_cast<Bits>(Format<T>::nan);
    const Bits l = __builtin_bit_cast(Bits, left);
    const Bits r = __builtin_bit_cast(Bits, right);
    constexpr int kToSign = 8 * sizeof(T) - 1;
    const Bits left_key = static_cast<Bits>(l ^ ((l >> kToSign) & kMagnitude));
    const Bits right_key = static_cast<Bits>(r ^ ((r >> kToSign) & kMagnitude));
    const Bits key = extreme<op>(left_key, right_key);
    const Bits chosen = static_cast<Bits>(key ^ ((key >> kToSign) & kMagnitude));
    const Bits l_magnitude = static_cast<Bits>(l & kMagnitude);
    const Bits r_magnitude = static_cast<Bits>(r & kMagnitude);
    const Bits larger = extreme<ANELLO_MAX>(l_magnitude, r_magnitude);
    return __builtin_bit_cast(T, larger > kInfinity ? kNan : chosen);
  } else {
    return extreme<op>(left, right);
  }
}

// Operands of an accumulator type, or vectors of float32.
template <anello_op_t op, class A>
[[gnu::always_inline]] inline A combine(A left, A right) {
  if constexpr (op == ANELLO_MIN || op == ANELLO_MAX) {
    return select<op>(left, right);
  } else {
    static_assert(op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD, "a new operation says here what it does");
    constexpr bool multiplies = op == ANELLO_PROD;
    if constexpr (std::is_integral_v<A>) {
      // Unsigned and at least as wide as int: the product of two uint16 would overflow a signed int.
      using Wide = std::conditional_t<sizeof(A) == 8, std::uint64_t, std::uint32_t>;
      const Wide l = static_cast<Wide>(left), r = static_cast<Wide>(right);
      return static_cast<A>(multiplies ? l * r : l + r);
    } else {
      return canonical(multiplies ? left * right : left + right);
    }
  }
}

template <class A>
[[gnu::always_inline]] inline A divided(A sum, int ranks) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(sum / static_cast<std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>>(ranks));
  } else if constexpr (std::is_same_v<A, double>) {
    return canonical(sum / static_cast<double>(ranks));
  } else {
    return canonical(sum / static_cast<float>(ranks));
  }
}

// Between a type and its accumulator; from and to the type itself nothing happens.
template <class A, class T>
[[gnu::always_inline]] inline A widened(T value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T, class A>
[[gnu::always_inline]] inline T narrowed(A value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    T rounded;
    round_to(rounded, value);
    return rounded;
  }
}

// Sums and products of bfloat16 two by two: each half of a 32-bit word becomes a float32 by a mask or a shift, and goes
// back so; taken one by one, GCC 12 spends most of the time on unpacking and packing.
template <anello_op_t op>
[[gnu::always_inline]] inline std::uint32_t combine_pair(std::uint32_t left, std::uint32_t right) {
  BFloat16 low, high;
  round_to(low, combine<op>(__builtin_bit_cast(float, left << 16), __builtin_bit_cast(float, right << 16)));
  round_to(high, combine<op>(__builtin_bit_cast(float, left & 0xffff0000u),
                             __builtin_bit_cast(float, right & 0xffff0000u)));
  return low.bits | std::uint32_t{high.bits} << 16;
}

}  // namespace
}  // namespace anello::kernels
