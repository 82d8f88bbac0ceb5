#pragma once
// The 8-bit floats and float32, without branches, for one element or for GCC vectors of them (Floats of float32, Words
// of as many int32). Forced inline, as inline.h explains.
#include "base/float16.h"

namespace anello::kernels {

ANELLO_INLINE float to_float(Float8E4M3 small) {
  const std::uint32_t sign = (small.bits & 0x80u) << 24;
  const std::uint32_t magnitude = small.bits & 0x7fu;
  const std::uint32_t normal = (magnitude << 20) + ((127u - 7u) << 23);
  // Zero or denormal: a count of 2^-9.
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-9f;
  const std::uint32_t number = magnitude < 0x08u ? __builtin_bit_cast(std::uint32_t, tiny) : normal;
  return __builtin_bit_cast(float, (magnitude == 0x7fu ? 0x7ff00000u : number) | sign);  // the payload stays
}

// A float8_e5m2 is the upper half of a float16.
ANELLO_INLINE float to_float(Float8E5M2 small) {
  return to_float(Float16{static_cast<std::uint16_t>(small.bits << 8)});
}

// Returns, in the lowest 8 bits, the pattern without sign of the number nearest to a magnitude (bits of a float32);
// ties go to even. The upper bits are unspecified. A magnitude above greatest (also bits) becomes greatest.
template <int mantissa_bits, int bias, std::int32_t greatest, class Floats, class Words>
ANELLO_INLINE Words nearest8(Words magnitude) {
  constexpr int kDropped = 23 - mantissa_bits;
  constexpr std::int32_t kLeast = (127 + 1 - bias) << 23;  // the least normal number; below it the spacing is constant
  // The exponent field of the least normal number, which is subtracted from the result's lowest 8 bits.
  constexpr std::int32_t kOffset = -(kLeast >> kDropped) & 0xff;
  static_assert(kOffset % 2 == 0, "the addition below would round to odd");
  const Words most = Words{} + greatest, least = Words{} + kLeast;
  const Words bounded = magnitude > most ? most : magnitude;
  const Words exponent = bounded & 0x7f800000;
  const Words power = exponent > least ? exponent : least;
  // The last mantissa bit of this power of two has the weight of the result's last bit, so the addition rounds there.
  // It leaves the units, with the implicit one, above the offset; the implicit one increments the exponent, as a carry
  // does.
  const Words magic = power + ((kDropped << 23) + kOffset);
  const Floats rounded = __builtin_bit_cast(Floats, bounded) + __builtin_bit_cast(Floats, magic);
  return __builtin_bit_cast(Words, rounded) + (power >> kDropped);
}

inline constexpr std::int32_t kNan8E4M3 = 0x7f, kNan8E5M2 = 0x7e;

// Above the range, where the next number would be 480, and for NaN, the result is NaN.
template <class Floats, class Words>
ANELLO_INLINE Words magnitude_e4m3(Floats value) {
  constexpr auto kNext = __builtin_bit_cast(std::int32_t, 480.0f);
  return nearest8<3, 7, kNext, Floats, Words>(__builtin_bit_cast(Words, value) & 0x7fffffff);
}

// Above the range, where the next number would be 65536, the result is infinity.
template <class Floats, class Words>
ANELLO_INLINE Words magnitude_e5m2(Floats value) {
  constexpr auto kNext = __builtin_bit_cast(std::int32_t, 65536.0f);
  const Words magnitude = __builtin_bit_cast(Words, value) & 0x7fffffff;
  const Words infinity = Words{} + 0x7f800000, nan = Words{} + kNan8E5M2;
  return magnitude > infinity ? nan : nearest8<2, 15, kNext, Floats, Words>(magnitude);
}

// A NaN has no sign.
ANELLO_INLINE std::uint8_t with_sign_of(float value, std::int32_t magnitude, std::int32_t nan) {
  const std::int32_t sign = (__builtin_bit_cast(std::int32_t, value) >> 24) & 0x80;
  return static_cast<std::uint8_t>((magnitude & 0xff) == nan ? nan : magnitude | sign);
}

ANELLO_INLINE void round_to(Float8E4M3& small, float value) {
  small.bits = with_sign_of(value, magnitude_e4m3<float, std::int32_t>(value), kNan8E4M3);
}

ANELLO_INLINE void round_to(Float8E5M2& small, float value) {
  small.bits = with_sign_of(value, magnitude_e5m2<float, std::int32_t>(value), kNan8E5M2);
}

}  // namespace anello::kernels
