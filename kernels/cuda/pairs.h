#pragma once
// Small floats in pairs: a device converts, rounds and compares a pair in one instruction. Arithmetic on single numbers
// would limit the rate of devices with fast memory. The results have the same bits as with single numbers. This is in
// an unnamed namespace, as reduce_loops.h explains.
#include "kernels/cuda/convert.h"
#include "kernels/select.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ANELLO_DEVICE_PAIRS 1  // also has minima of two 16-bit integers
#endif

namespace anello::kernels::cuda {
namespace {

// Two neighbours as they lie in memory: the first in the lower half.
template <class T>
using PairOf = std::conditional_t<sizeof(T) == 1, std::uint16_t, std::uint32_t>;

// Hosts also use pairs, so that tests cover them; devices without the instructions use single numbers.
#if defined(ANELLO_DEVICE_PAIRS) || !defined(__CUDA_ARCH__)
template <class T>
constexpr bool has_pairs = kFloating<T> && sizeof(T) <= 2;
#else
template <class T>
constexpr bool has_pairs = false;
#endif

struct WidePair {
  float low, high;
};

template <class T>
ANELLO_INLINE PairOf<T> joined(T low, T high) {
  return static_cast<PairOf<T>>(low.bits | std::uint32_t{high.bits} << (8 * sizeof(T)));
}
template <class T>
ANELLO_INLINE T low_of(PairOf<T> pair) {
  return {static_cast<decltype(T::bits)>(pair)};
}
template <class T>
ANELLO_INLINE T high_of(PairOf<T> pair) {
  return {static_cast<decltype(T::bits)>(pair >> (8 * sizeof(T)))};
}

template <class T>
ANELLO_INLINE WidePair widened_pair(PairOf<T> pair) {
  return {device_widened(low_of<T>(pair)), device_widened(high_of<T>(pair))};
}
template <class T>
ANELLO_INLINE PairOf<T> rounded_pair(WidePair wide) {
  return joined(device_rounded<T>(wide.low), device_rounded<T>(wide.high));
}
#ifdef ANELLO_DEVICE_PAIRS
// As signed integers, the instructions' NaN (0x7fff) is greater than the canonical NaN, and all numbers are less.
template <class T>
ANELLO_INLINE std::uint32_t canonical_halves(std::uint32_t pair) {
  constexpr std::uint32_t kNans = Format<T>::nan * 0x00010001u;
  std::uint32_t lesser;
  asm("min.s16x2 %0, %1, %2;" : "=r"(lesser) : "r"(pair), "r"(kNans));
  return lesser;
}

template <>
ANELLO_INLINE std::uint32_t rounded_pair<Float16>(WidePair wide) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(wide.high), "f"(wide.low));
  return canonical_halves<Float16>(pair);
}
template <>
ANELLO_INLINE std::uint32_t rounded_pair<BFloat16>(WidePair wide) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(wide.high), "f"(wide.low));
  return canonical_halves<BFloat16>(pair);
}

// Neither loses a bit: a float16 holds every 8-bit float.
ANELLO_INLINE std::uint32_t halves_of_e4m3(std::uint16_t pair) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
}
ANELLO_INLINE std::uint32_t halves_of_e5m2(std::uint16_t pair) { return __byte_perm(pair, 0, 0x1404); }

template <>
ANELLO_INLINE WidePair widened_pair<Float8E4M3>(std::uint16_t pair) {
  return widened_pair<Float16>(halves_of_e4m3(pair));
}
template <>
ANELLO_INLINE WidePair widened_pair<Float8E5M2>(std::uint16_t pair) {
  return widened_pair<Float16>(halves_of_e5m2(pair));
}

// The instructions saturate, so overflows are set separately; device_rounded says where they begin.
template <>
ANELLO_INLINE std::uint16_t rounded_pair<Float8E4M3>(WidePair wide) {
  const auto fitting = [](float value) {
    return fabsf(value) <= 464.0f ? value : __builtin_bit_cast(float, Format<float>::nan);
  };
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(fitting(wide.high)), "f"(fitting(wide.low)));
  return pair;
}
template <>
ANELLO_INLINE std::uint16_t rounded_pair<Float8E5M2>(WidePair wide) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(wide.high), "f"(wide.low));
  std::uint32_t bits = pair;
  if (fabsf(wide.low) >= 61440.0f) bits += 0x0001u;
  if (fabsf(wide.high) >= 61440.0f) bits += 0x0100u;
  if (!(wide.low == wide.low)) bits -= 0x0001u;
  if (!(wide.high == wide.high)) bits -= 0x0100u;
  return static_cast<std::uint16_t>(bits);
}

// For 16-bit floats. Like select, the instructions treat -0 as less than +0, and return NaN if an operand is NaN.
template <class T, anello_op_t op>
ANELLO_INLINE std::uint32_t selected_halves(std::uint32_t left, std::uint32_t right) {
  std::uint32_t selected;
  if constexpr (std::is_same_v<T, Float16> && op == ANELLO_MIN) {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(selected) : "r"(left), "r"(right));
  } else if constexpr (std::is_same_v<T, Float16>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(selected) : "r"(left), "r"(right));
  } else if constexpr (op == ANELLO_MIN) {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(selected) : "r"(left), "r"(right));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(selected) : "r"(left), "r"(right));
  }
  return canonical_halves<T>(selected);
}
// An 8-bit float is selected as the float16 that equals it.
template <class T, anello_op_t op>
ANELLO_INLINE PairOf<T> selected_pair(PairOf<T> left, PairOf<T> right) {
  if constexpr (sizeof(T) == 2) {
    return selected_halves<T, op>(left, right);
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    std::uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;"
        : "=h"(pair)
        : "r"(selected_halves<Float16, op>(halves_of_e4m3(left), halves_of_e4m3(right))));
    return pair;
  } else {
    const std::uint32_t halves = selected_halves<Float16, op>(halves_of_e5m2(left), halves_of_e5m2(right));
    return static_cast<std::uint16_t>(__byte_perm(halves, 0, 0x4431));
  }
}
#else
template <class T, anello_op_t op>
ANELLO_INLINE PairOf<T> selected_pair(PairOf<T> left, PairOf<T> right) {
  return joined(select<op>(low_of<T>(left), low_of<T>(right)), select<op>(high_of<T>(left), high_of<T>(right)));
}
#endif

}  // namespace
}  // namespace anello::kernels::cuda
