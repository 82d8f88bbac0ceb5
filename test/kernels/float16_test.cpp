#include "kernels/float16.h"
#include "wide_float.h"

#include <catch2/catch.hpp>

#include <bit>
#include <random>

namespace anello::kernels {
namespace {

using testing::decode;
using testing::encode;
using testing::Half;

template <class T>
void check_all_patterns(const Half& format) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T value{static_cast<std::uint16_t>(bits)};
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
void check_rounding(const Half& format, std::uint32_t pattern) {
  const float value = std::bit_cast<float>(pattern);
  T rounded;
  round_to(rounded, value);
  if (rounded.bits != encode(format, value)) {
    FAIL("float32 pattern " << pattern << " (" << value << ") rounds to " << rounded.bits << " instead of "
                            << encode(format, value));
  }
}

TEST_CASE("every 16-bit pattern widens to the number it stands for, and rounds back to itself") {
  check_all_patterns<Float16>(testing::kFloat16);
  check_all_patterns<BFloat16>(testing::kBFloat16);
}

TEST_CASE("float32 rounds to the nearest 16-bit number, to even between two, past the end to infinity") {
  std::mt19937 random(11);
  for (int i = 0; i < 300000; ++i) {
    check_rounding<Float16>(testing::kFloat16, random());
    check_rounding<BFloat16>(testing::kBFloat16, random());
    // Float16 covers a small part of float32: aim there, 2^-26 to 2^17.
    check_rounding<Float16>(testing::kFloat16, (random() & 0x807fffffu) | ((101u + random() % 44u) << 23));
  }
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const long double number = decode(testing::kFloat16, static_cast<std::uint16_t>(bits));
    const auto following = static_cast<std::uint16_t>(bits + 1);
    const long double next = bits == 0x7bff ? 65536.0L : decode(testing::kFloat16, following);
    const auto middle = std::bit_cast<std::uint32_t>(static_cast<float>((number + next) / 2));
    for (const std::uint32_t pattern : {middle - 1, middle, middle + 1}) {
      check_rounding<Float16>(testing::kFloat16, pattern);
      check_rounding<Float16>(testing::kFloat16, pattern | 0x80000000u);
    }
  }
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const std::uint32_t rest : {0x7fffu, 0x8000u, 0x8001u}) {
      check_rounding<BFloat16>(testing::kBFloat16, (bits << 16) | rest);
    }
  }
}

}  // namespace
}  // namespace anello::kernels
