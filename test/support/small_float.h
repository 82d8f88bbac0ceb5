#pragma once
// 16- and 8-bit floats by definition, in long double and without bit tricks: what the kernels are held against.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace anello::testing {

struct Small {
  int exponent_bits;
  int mantissa_bits;
  bool ends_in_nan = false;  // no infinity: the pattern of all bits is NaN, and the ones before are numbers

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  unsigned sign() const { return 1u << (bits() - 1); }
  unsigned infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  unsigned nan() const { return ends_in_nan ? sign() - 1 : infinity() | 1u << (mantissa_bits - 1); }
  // Where the numbers end.
  unsigned past_end() const { return ends_in_nan ? nan() : infinity(); }
};
inline constexpr Small kFloat16{5, 10};
inline constexpr Small kBFloat16{8, 7};
inline constexpr Small kFloat8E4M3{4, 3, true};
inline constexpr Small kFloat8E5M2{5, 2};

inline long double decode(const Small& format, unsigned bits) {
  const unsigned magnitude = bits & (format.sign() - 1);
  const long double sign = (bits & format.sign()) != 0 ? -1.0L : 1.0L;
  if (magnitude > format.past_end() || (format.ends_in_nan && magnitude == format.nan())) {
    return std::numeric_limits<long double>::quiet_NaN();
  }
  if (magnitude == format.past_end()) return sign * std::numeric_limits<long double>::infinity();
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  const int units = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  return sign *
         std::ldexp(static_cast<long double>(units), std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

// The pattern nearest to value, to even where two are; past the end infinity, else the canonical NaN.
inline unsigned encode(const Small& format, long double value) {
  if (std::isnan(value)) return format.nan();
  const unsigned sign = std::signbit(value) ? format.sign() : 0;
  const unsigned overflow = format.ends_in_nan ? format.nan() : sign | format.infinity();
  const long double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return overflow;
  const int lowest = 1 - format.bias();
  int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  if (exponent > format.bias() + 1) return overflow;
  auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  if (units == 2u << format.mantissa_bits) {
    units /= 2;
    ++exponent;
  }
  if (units < 1u << format.mantissa_bits) return sign | units;
  const unsigned pattern = (static_cast<unsigned>(exponent + format.bias()) << format.mantissa_bits) +
                           (units - (1u << format.mantissa_bits));
  return pattern >= format.past_end() ? overflow : sign | pattern;
}

}  // namespace anello::testing
