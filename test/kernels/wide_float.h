#pragma once
// 16-bit floats by definition, in long double and without bit tricks: what the kernels are held against.
#include "base/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace anello::testing {

struct Half {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr Half kFloat16{5, 10};
inline constexpr Half kBFloat16{8, 7};

inline long double decode(const Half& format, std::uint16_t bits) {
  const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const long double sign = (bits & 0x8000) != 0 ? -1.0L : 1.0L;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  }
  const int units = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  return sign * std::ldexp(static_cast<long double>(units),
                           std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

// The pattern nearest to value, to even where two are; the canonical NaN.
inline std::uint16_t encode(const Half& format, long double value) {
  const int top = (1 << format.exponent_bits) - 1;
  const auto infinity = static_cast<std::uint16_t>(top << format.mantissa_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1 << (format.mantissa_bits - 1)));
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  long double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  const int lowest = 1 - format.bias();
  int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  auto units = static_cast<std::int64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  if (units == std::int64_t{2} << format.mantissa_bits) {
    units /= 2;
    ++exponent;
  }
  if (units < std::int64_t{1} << format.mantissa_bits) return static_cast<std::uint16_t>(sign | units);
  if (exponent > format.bias()) return sign | infinity;
  return static_cast<std::uint16_t>(sign | ((exponent + format.bias()) << format.mantissa_bits) |
                                    (units - (std::int64_t{1} << format.mantissa_bits)));
}

}  // namespace anello::testing
