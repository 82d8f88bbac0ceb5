#include "perf/number.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace perf {
namespace {

// The two 16-bit layouts: sign, exponent, fraction.
struct Layout {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits); }
};
constexpr Layout kFloat16{5, 10};
constexpr Layout kBfloat16{8, 7};

std::uint16_t narrow(double value, Layout layout) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | layout.infinity() | 1);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  if (std::isfinite(magnitude)) std::frexp(magnitude, &exponent);
  const int least = 1 - layout.bias();  // below it, subnormals share the last exponent's spacing
  const int spacing = std::max(exponent - 1, least) - layout.fraction_bits;
  // nearbyint rounds to nearest even in the default environment.
  const double units = std::nearbyint(std::ldexp(magnitude, -spacing));
  if (!std::isfinite(magnitude) || std::ldexp(units, spacing) >= std::ldexp(1.0, layout.bias() + 1)) {
    return static_cast<std::uint16_t>(sign | layout.infinity());
  }
  // units carries the implicit one, which adds itself to the exponent: the same sum serves subnormals and carries.
  const auto biased = static_cast<std::uint32_t>(spacing + layout.fraction_bits - least);
  return static_cast<std::uint16_t>(sign | ((biased << layout.fraction_bits) + static_cast<std::uint32_t>(units)));
}

double widen(std::uint16_t bits, Layout layout) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int fraction = bits & ((1 << layout.fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> layout.fraction_bits;
  if (exponent == (1 << layout.exponent_bits) - 1) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  const int units = exponent == 0 ? fraction : fraction | (1 << layout.fraction_bits);
  return sign * std::ldexp(units, (exponent == 0 ? 1 : exponent) - layout.bias() - layout.fraction_bits);
}

// Modulo 2^64, where a plain cast would be undefined.
std::int64_t whole(double value) {
  constexpr double kHalf = 9223372036854775808.0;
  if (value >= -kHalf && value < kHalf) return static_cast<std::int64_t>(value);
  double rest = std::fmod(std::trunc(value), 2 * kHalf);  // exact; such a value is a multiple of 1024
  if (rest < 0) rest += 2 * kHalf;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(rest));
}

template <class Stored>
void put(unsigned char* into, Stored value) {
  std::memcpy(into, &value, sizeof value);
}

template <class Stored>
Stored get(const unsigned char* from) {
  Stored value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void encode(anello_dtype_t dtype, double value, unsigned char* into) {
  switch (dtype) {
    case ANELLO_FLOAT32: return put(into, static_cast<float>(value));
    case ANELLO_FLOAT64: return put(into, value);
    case ANELLO_INT32: return put(into, static_cast<std::int32_t>(whole(value)));
    case ANELLO_INT64: return put(into, whole(value));
    case ANELLO_UINT8: return put(into, static_cast<std::uint8_t>(whole(value)));
    case ANELLO_FLOAT16: return put(into, narrow(value, kFloat16));
    case ANELLO_BFLOAT16: return put(into, narrow(value, kBfloat16));
  }
}

double decode(anello_dtype_t dtype, const unsigned char* from) {
  switch (dtype) {
    case ANELLO_FLOAT32: return static_cast<double>(get<float>(from));
    case ANELLO_FLOAT64: return get<double>(from);
    case ANELLO_INT32: return get<std::int32_t>(from);
    case ANELLO_INT64: return static_cast<double>(get<std::int64_t>(from));
    case ANELLO_UINT8: return get<std::uint8_t>(from);
    case ANELLO_FLOAT16: return widen(get<std::uint16_t>(from), kFloat16);
    case ANELLO_BFLOAT16: return widen(get<std::uint16_t>(from), kBfloat16);
  }
  return 0;
}

}  // namespace perf
