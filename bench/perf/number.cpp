#include "perf/number.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace perf {
namespace {

// Sign, exponent, fraction.
struct Layout {
  int exponent_bits;
  int fraction_bits;
  bool ends_in_nan = false;  // the pattern with all bits set is NaN, and all patterns before it are numbers; there is
                             // no infinity

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign() const { return 1u << (exponent_bits + fraction_bits); }
  // The end of the numbers.
  std::uint32_t past_end() const { return ends_in_nan ? sign() - 1 : ((1u << exponent_bits) - 1) << fraction_bits; }
  std::uint32_t nan() const { return ends_in_nan ? sign() - 1 : past_end() | 1u << (fraction_bits - 1); }
};
constexpr Layout kFloat16{5, 10};
constexpr Layout kBfloat16{8, 7};
constexpr Layout kFloat8E4M3{4, 3, true};
constexpr Layout kFloat8E5M2{5, 2};

std::uint32_t narrow(double value, Layout layout) {
  const std::uint32_t sign = std::signbit(value) ? layout.sign() : 0;
  if (std::isnan(value)) return layout.nan();
  const std::uint32_t overflow = layout.ends_in_nan ? layout.nan() : sign | layout.past_end();
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= std::ldexp(1.0, layout.bias() + 2)) return overflow;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int least = 1 - layout.bias();  // below it, subnormals share the last exponent's spacing
  const int spacing = std::max(exponent - 1, least) - layout.fraction_bits;
  // nearbyint rounds to nearest even in the default environment.
  const double units = std::nearbyint(std::ldexp(magnitude, -spacing));
  // units contains the implicit one, which increments the exponent, so one sum covers subnormals and carries.
  const auto biased = static_cast<std::uint32_t>(spacing + layout.fraction_bits - least);
  const std::uint32_t pattern = (biased << layout.fraction_bits) + static_cast<std::uint32_t>(units);
  return pattern >= layout.past_end() ? overflow : sign | pattern;
}

double widen(std::uint32_t bits, Layout layout) {
  const double sign = (bits & layout.sign()) != 0 ? -1 : 1;
  const std::uint32_t magnitude = bits & (layout.sign() - 1);
  if (magnitude >= layout.past_end()) {
    return magnitude == layout.past_end() && !layout.ends_in_nan ? sign * HUGE_VAL : std::nan("");
  }
  const int fraction = static_cast<int>(magnitude & ((1u << layout.fraction_bits) - 1));
  const int exponent = static_cast<int>(magnitude >> layout.fraction_bits);
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

// Two parts, one after the other; in a pair of 16 bytes the last 4 are padding, 0.
template <class First, class Second>
void put_two(unsigned char* into, std::size_t bytes, First first, Second second) {
  std::memset(into, 0, bytes);
  put(into, first);
  put(into + sizeof first, second);
}

template <class First, class Second>
Number get_two(const unsigned char* from) {
  return {static_cast<double>(get<First>(from)), static_cast<double>(get<Second>(from + sizeof(First)))};
}

}  // namespace

void encode(anello_dtype_t dtype, const Number& number, unsigned char* into) {
  const double value = number.value;
  const auto index = static_cast<std::int32_t>(whole(number.second));
  switch (dtype) {
    case ANELLO_FLOAT32: return put(into, static_cast<float>(value));
    case ANELLO_FLOAT64: return put(into, value);
    case ANELLO_INT8:
    case ANELLO_UINT8:
    case ANELLO_BOOL:  // any value other than zero is true; it need not be 1
    case ANELLO_BYTE: return put(into, static_cast<std::uint8_t>(whole(value)));
    case ANELLO_INT16:
    case ANELLO_UINT16: return put(into, static_cast<std::uint16_t>(whole(value)));
    case ANELLO_INT32:
    case ANELLO_UINT32: return put(into, static_cast<std::uint32_t>(whole(value)));
    case ANELLO_INT64:
    case ANELLO_UINT64: return put(into, whole(value));
    case ANELLO_FLOAT16: return put(into, static_cast<std::uint16_t>(narrow(value, kFloat16)));
    case ANELLO_BFLOAT16: return put(into, static_cast<std::uint16_t>(narrow(value, kBfloat16)));
    case ANELLO_FLOAT8_E4M3: return put(into, static_cast<std::uint8_t>(narrow(value, kFloat8E4M3)));
    case ANELLO_FLOAT8_E5M2: return put(into, static_cast<std::uint8_t>(narrow(value, kFloat8E5M2)));
    case ANELLO_COMPLEX64: return put_two(into, 8, static_cast<float>(value), static_cast<float>(number.second));
    case ANELLO_COMPLEX128: return put_two(into, 16, value, number.second);
    case ANELLO_FLOAT32_INT: return put_two(into, 8, static_cast<float>(value), index);
    case ANELLO_FLOAT64_INT: return put_two(into, 16, value, index);
    case ANELLO_INT32_INT: return put_two(into, 8, static_cast<std::int32_t>(whole(value)), index);
    case ANELLO_INT64_INT: return put_two(into, 16, whole(value), index);
  }
}

Number decode(anello_dtype_t dtype, const unsigned char* from) {
  switch (dtype) {
    case ANELLO_FLOAT32: return static_cast<double>(get<float>(from));
    case ANELLO_FLOAT64: return get<double>(from);
    case ANELLO_INT8: return get<std::int8_t>(from);
    case ANELLO_INT16: return get<std::int16_t>(from);
    case ANELLO_INT32: return get<std::int32_t>(from);
    case ANELLO_INT64: return static_cast<double>(get<std::int64_t>(from));
    case ANELLO_UINT8:
    case ANELLO_BOOL:
    case ANELLO_BYTE: return get<std::uint8_t>(from);
    case ANELLO_UINT16: return get<std::uint16_t>(from);
    case ANELLO_UINT32: return get<std::uint32_t>(from);
    case ANELLO_UINT64: return static_cast<double>(get<std::uint64_t>(from));
    case ANELLO_FLOAT16: return widen(get<std::uint16_t>(from), kFloat16);
    case ANELLO_BFLOAT16: return widen(get<std::uint16_t>(from), kBfloat16);
    case ANELLO_FLOAT8_E4M3: return widen(get<std::uint8_t>(from), kFloat8E4M3);
    case ANELLO_FLOAT8_E5M2: return widen(get<std::uint8_t>(from), kFloat8E5M2);
    case ANELLO_COMPLEX64: return get_two<float, float>(from);
    case ANELLO_COMPLEX128: return get_two<double, double>(from);
    case ANELLO_FLOAT32_INT: return get_two<float, std::int32_t>(from);
    case ANELLO_FLOAT64_INT: return get_two<double, std::int32_t>(from);
    case ANELLO_INT32_INT: return get_two<std::int32_t, std::int32_t>(from);
    case ANELLO_INT64_INT: return get_two<std::int64_t, std::int32_t>(from);
  }
  return 0;
}

}  // namespace perf
