#pragma once
// Selects the lesser or greater of two operands. This is in an unnamed namespace, as reduce_loops.h explains.
#include "kernels/elements.h"

namespace anello::kernels {
namespace {

template <anello_op_t op, class Integer>
ANELLO_INLINE Integer extreme(Integer left, Integer right) {
  if constexpr (op == ANELLO_MIN) {
    return left < right ? left : right;
  } else {
    return left > right ? left : right;
  }
}

// Computes MIN and MAX of floats on their bits: flipping the magnitude of negative numbers turns float order into
// integer order, with -0 just below +0.
template <anello_op_t op, class T>
ANELLO_INLINE T select(T left, T right) {
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

}  // namespace
}  // namespace anello::kernels
