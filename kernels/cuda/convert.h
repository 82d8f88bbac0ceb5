#pragma once
// The conversions of small floats for which a device has instructions. The host's code takes ten integer instructions,
// which would make 8-bit kernels slower than memory. The bits are the same; only a widened NaN's payload may differ,
// which no rounding keeps. Everything else is as in base/float16.h and float8.h. This is in an unnamed namespace, as
// reduce_loops.h explains.
#include "base/float16.h"
#include "kernels/float8.h"

#if defined(__CUDA_ARCH__)
#define ANELLO_DEVICE_FLOAT16 1
#if __CUDA_ARCH__ >= 890
#define ANELLO_DEVICE_FLOAT8 1
#endif
#endif

namespace anello::kernels::cuda {
namespace {

template <class T>
ANELLO_INLINE float device_widened(T value) {
  return to_float(value);
}
template <class T>
ANELLO_INLINE T device_rounded(float value) {
  T rounded;
  round_to(rounded, value);
  return rounded;
}

#ifdef ANELLO_DEVICE_FLOAT16
template <>
ANELLO_INLINE float device_widened(Float16 half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
}
template <>
ANELLO_INLINE float device_widened(Float8E5M2 small) {
  return device_widened(Float16{static_cast<std::uint16_t>(small.bits << 8)});
}
template <>
ANELLO_INLINE Float16 device_rounded<Float16>(float value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {value == value ? bits : Format<Float16>::nan};
}
template <>
ANELLO_INLINE BFloat16 device_rounded<BFloat16>(float value) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {value == value ? bits : Format<BFloat16>::nan};
}
#endif

#ifdef ANELLO_DEVICE_FLOAT8
template <>
ANELLO_INLINE float device_widened(Float8E4M3 small) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(small.bits)));
  return device_widened(Float16{static_cast<std::uint16_t>(halves)});
}
// The instruction saturates; an overflow is set here.
template <>
ANELLO_INLINE Float8E4M3 device_rounded<Float8E4M3>(float value) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  const bool fits = fabsf(value) <= 464.0f;  // the middle between the greatest number, which is even, and the next
  return {static_cast<std::uint8_t>(fits ? pair : Format<Float8E4M3>::nan)};
}
template <>
ANELLO_INLINE Float8E5M2 device_rounded<Float8E5M2>(float value) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  // As bits, infinity follows the greatest number, at which the instruction saturates, and its NaN follows the quiet
  // one. From 61440 on, halfway between that number and 65536, rounding to even gives infinity.
  const int beyond = fabsf(value) >= 61440.0f ? 1 : 0, not_a_number = value == value ? 0 : 1;
  return {static_cast<std::uint8_t>(pair + beyond - not_a_number)};
}
#endif

}  // namespace
}  // namespace anello::kernels::cuda
