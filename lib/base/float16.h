#pragma once
// The 16-bit floats and float32, without branches, so that loops over them vectorise at every instruction-set level.
// Forced inline, as inline.h explains.
#include "base/dtype.h"
#include "base/inline.h"

#include <cstdint>

namespace anello {

ANELLO_INLINE float to_float(Float16 half) {
  constexpr std::uint32_t kRebias = (127u - 15u) << 23;
  const std::uint32_t sign = (half.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = half.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + kRebias;
  const std::uint32_t special = (normal + kRebias) | (magnitude > 0x7c00u ? 0x00400000u : 0u);  // quiet, as F16C does
  // Zero or denormal: a count of 2^-24, which float32 holds exactly and as a normal number.
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t large = magnitude < 0x7c00u ? normal : special;
  const std::uint32_t bits = magnitude < 0x0400u ? __builtin_bit_cast(std::uint32_t, tiny) : large;
  return __builtin_bit_cast(float, bits | sign);
}

ANELLO_INLINE float to_float(BFloat16 brain) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(brain.bits) << 16);
}

// To nearest even. Any NaN becomes the canonical one.
ANELLO_INLINE void round_to(Float16& half, float value) {
  constexpr std::uint32_t kRebias = (127u - 15u) << 23;
  const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t magnitude = all & 0x7fffffffu;
  const std::uint32_t sign = (all >> 16) & 0x8000u;
  // A carry out of the mantissa is correct: it gives the next power of two, and infinity from 65520 on.
  const std::uint32_t normal = (magnitude - kRebias + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: the last mantissa bit of 0.5 is 2^-24, so this addition rounds at the end of the half's mantissa.
  const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
  const std::uint32_t denormal = __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u;
  const std::uint32_t finite = magnitude < 0x38800000u ? denormal : normal;
  const std::uint32_t number = magnitude < 0x47800000u ? finite : 0x7c00u;
  half.bits = static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : number | sign);
}

ANELLO_INLINE void round_to(BFloat16& brain, float value) {
  const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  brain.bits = static_cast<std::uint16_t>((all & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

}  // namespace anello
