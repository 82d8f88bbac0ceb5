#include "gradient_sync/element_copy.h"
#include "support/catch.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace anello::gradient_sync;

namespace {

// By their definition: slow, and written independently of the library's.
float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(float(mantissa), -24) : std::ldexp(float(1024 + mantissa), exponent - 25));
}
float from_brain(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::vector<float> some(std::size_t count, float range) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(-range, range);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

}  // namespace

TEST_CASE("rounding to 16 bits takes the nearest") {
  for (const anello_dtype_t wire : {ANELLO_FLOAT16, ANELLO_BFLOAT16}) {
    const auto widen = wire == ANELLO_FLOAT16 ? from_half : from_brain;
    const std::vector<float> in = some(1003, 3);
    std::vector<std::uint16_t> out(in.size());
    CHECK(copy_elements(in.data(), ANELLO_FLOAT32, out.data(), wire, in.size(), 0.5, true));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float wanted = in[i] * 0.5f, got = widen(out[i]);
      for (const int next : {-1, 1}) {
        const float other = widen(static_cast<std::uint16_t>(out[i] + next));
        if (std::signbit(other) == std::signbit(got)) REQUIRE(std::fabs(got - wanted) <= std::fabs(other - wanted));
      }
    }
    std::vector<float> back(in.size());
    CHECK(copy_elements(out.data(), wire, back.data(), ANELLO_FLOAT32, in.size(), 2, true));
    for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(back[i] == widen(out[i]) * 2);
  }
}

TEST_CASE("infinities and NaN are seen wherever they are") {
  struct Case {
    anello_dtype_t from, to;
  };
  for (const auto [from, to] : {Case{ANELLO_FLOAT32, ANELLO_FLOAT32}, Case{ANELLO_FLOAT32, ANELLO_FLOAT16},
                                Case{ANELLO_FLOAT32, ANELLO_BFLOAT16}}) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{98}}) {
        std::vector<float> in = some(99, 3), out(99);
        CHECK(copy_elements(in.data(), from, out.data(), to, in.size(), 1, true));
        in[at] = bad;
        CHECK_FALSE(copy_elements(in.data(), from, out.data(), to, in.size(), 1, true));
        CHECK_FALSE(copy_elements(in.data(), from, out.data(), to, in.size(), 0.25, true));
        CHECK(copy_elements(in.data(), from, out.data(), to, in.size(), 1, false));
      }
    }
  }
  // Too large for float16, which has 65504 at most.
  std::vector<float> in(40, 1.0f);
  std::vector<std::uint16_t> out(40);
  in[33] = 65520;
  CHECK_FALSE(copy_elements(in.data(), ANELLO_FLOAT32, out.data(), ANELLO_FLOAT16, in.size(), 1, true));
  in[33] = 65519;
  CHECK(copy_elements(in.data(), ANELLO_FLOAT32, out.data(), ANELLO_FLOAT16, in.size(), 1, true));
}

TEST_CASE("each type is multiplied in its own precision") {
  std::vector<double> doubles = {1.0 + 0x1p-40, -3, 0}, scaled(3);
  copy_elements(doubles.data(), ANELLO_FLOAT64, scaled.data(), ANELLO_FLOAT64, 3, 3, false);
  CHECK(scaled == std::vector<double>{3.0 + 3 * 0x1p-40, -9, 0});
  std::vector<float> pairs = {1, 2, 3, 4};
  copy_elements(pairs.data(), ANELLO_COMPLEX64, pairs.data(), ANELLO_COMPLEX64, 2, 0.5, false);
  CHECK(pairs == std::vector<float>{0.5, 1, 1.5, 2});
  std::vector<std::uint16_t> halves = {0x3c00, 0xc000}, twice(2);  // 1, -2
  copy_elements(halves.data(), ANELLO_FLOAT16, twice.data(), ANELLO_FLOAT16, 2, 2, false);
  CHECK(twice == std::vector<std::uint16_t>{0x4000, 0xc400});
}

TEST_CASE("what rounding takes away comes again") {
  // 1 + 1/1024 is no bfloat16: without feedback each step gives 1.
  const std::vector<float> gradient(37, 1.0f + 0x1p-10f);
  std::vector<float> rest(37, 0.0f);
  std::vector<std::uint16_t> sent(37);
  double sum = 0;
  for (int step = 0; step < 1024; ++step) {
    round_with_feedback(gradient.data(), rest.data(), sent.data(), ANELLO_BFLOAT16, sent.size(), 1);
    sum += from_brain(sent[36]);
  }
  CHECK(std::fabs(sum - 1025) < 0.01);
  rest[3] = 1;
  std::vector<float> infinite(37, INFINITY);
  round_with_feedback(infinite.data(), rest.data(), sent.data(), ANELLO_FLOAT16, sent.size(), 1);
  CHECK(rest[3] == 0);
}
