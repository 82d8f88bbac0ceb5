#include "kernels/float8.h"
#include "support/catch.h"
#include "support/small_float.h"

#include <bit>
#include <limits>
#include <random>

namespace anello::kernels {
namespace {

using testing::decode;
using testing::encode;
using testing::Small;

template <class T>
void check_all_patterns(const Small& format) {
  using Bits = decltype(T::bits);
  for (std::uint32_t bits = 0; bits < 1u << format.bits(); ++bits) {
    const T value{static_cast<Bits>(bits)};
    const long double expected = decode(format, value.bits);
    const float got = to_float(value);
    if (std::isnan(expected)) {
      if (!std::isnan(got) || encode(format, expected) != encode(format, got)) FAIL("NaN is lost from " << bits);
      continue;
    }
    if (std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(static_cast<float>(expected))) {
      FAIL("pattern " << bits << " widens to " << got << " instead of " << expected);
    }
    T back;
    round_to(back, got);
    if (back.bits != value.bits) FAIL("pattern " << bits << " comes back as " << back.bits);
  }
}

template <class T>
void check_rounding(const Small& format, std::uint32_t pattern) {
  const float value = std::bit_cast<float>(pattern);
  T rounded;
  round_to(rounded, value);
  if (rounded.bits != encode(format, value)) {
    FAIL("float32 pattern " << pattern << " (" << value << ") rounds to " << rounded.bits << " instead of "
                            << encode(format, value));
  }
}

// Around every number and every middle between two, of both signs, and past the end.
template <class T>
void check_middles(const Small& format) {
  for (unsigned bits = 0; bits < format.past_end(); ++bits) {
    const long double number = decode(format, bits);
    // Past the last number the next one is where it would be, were there one more exponent.
    const long double next =
        bits + 1 < format.past_end() ? decode(format, bits + 1) : 2 * number - decode(format, bits - 1);
    for (const long double place : {number, (number + next) / 2, next}) {
      const auto pattern = std::bit_cast<std::uint32_t>(static_cast<float>(place));
      for (const std::uint32_t beside : {pattern == 0 ? 0 : pattern - 1, pattern, pattern + 1}) {
        check_rounding<T>(format, beside);
        check_rounding<T>(format, beside | 0x80000000u);
      }
    }
  }
}

template <class T>
void check_type(const Small& format, std::mt19937& random) {
  check_all_patterns<T>(format);
  check_middles<T>(format);
  for (int i = 0; i < 300000; ++i) {
    check_rounding<T>(format, random());
    // A small type covers a small part of float32: aim there, its exponents and four beyond on either side.
    const unsigned span = (1u << format.exponent_bits) + static_cast<unsigned>(format.mantissa_bits) + 8;
    const unsigned exponent = static_cast<unsigned>(127 - format.bias() - format.mantissa_bits - 4) + random() % span;
    check_rounding<T>(format, (random() & 0x807fffffu) | (exponent & 0xffu) << 23);
  }
}

TEST_CASE(
    "every pattern widens to the number it stands for and back; float32 rounds to the nearest, to even between two") {
  std::mt19937 random(11);
  check_type<Float16>(testing::kFloat16, random);
  check_type<BFloat16>(testing::kBFloat16, random);
  check_type<Float8E4M3>(testing::kFloat8E4M3, random);
  check_type<Float8E5M2>(testing::kFloat8E5M2, random);
}

TEST_CASE("past the end, 8-bit floats do what the header says") {
  const auto e4m3 = [](float value) {
    Float8E4M3 rounded;
    round_to(rounded, value);
    return int{rounded.bits};
  };
  const auto e5m2 = [](float value) {
    Float8E5M2 rounded;
    round_to(rounded, value);
    return int{rounded.bits};
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(e4m3(448) == 0x7e);
  CHECK(e4m3(464) == 0x7e);
  CHECK(e4m3(464.001f) == 0x7f);
  CHECK(e4m3(-464.001f) == 0x7f);  // a NaN has no sign
  CHECK(e4m3(-kInfinity) == 0x7f);
  CHECK(e4m3(3e38f) == 0x7f);
  CHECK(e4m3(-0x1p-10f) == 0x80);
  CHECK(e4m3(0x1.8p-10f) == 0x01);
  CHECK(e5m2(57344) == 0x7b);
  CHECK(e5m2(61439) == 0x7b);
  CHECK(e5m2(61440) == 0x7c);
  CHECK(e5m2(-3e38f) == 0xfc);
  CHECK(e5m2(-std::numeric_limits<float>::quiet_NaN()) == 0x7e);
}

}  // namespace
}  // namespace anello::kernels
