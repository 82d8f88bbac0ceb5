// The benchmark's own idea of what a data type can hold, which its verdicts on Anello stand on.
#include "perf/number.h"
#include "support/catch.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

std::uint16_t bits(anello_dtype_t dtype, double value) {
  std::array<unsigned char, 16> element{};
  perf::encode(dtype, value, element.data());
  std::uint16_t found;
  std::memcpy(&found, element.data(), sizeof found);
  return found;
}

double through(anello_dtype_t dtype, double value) {
  std::array<unsigned char, 16> element{};
  perf::encode(dtype, value, element.data());
  return perf::decode(dtype, element.data()).value;
}

}  // namespace

TEST_CASE("float16 has its published encodings and rounds to nearest even") {
  CHECK(bits(ANELLO_FLOAT16, 0) == 0x0000);
  CHECK(bits(ANELLO_FLOAT16, 1) == 0x3c00);
  CHECK(bits(ANELLO_FLOAT16, -2) == 0xc000);
  CHECK(bits(ANELLO_FLOAT16, 65504) == 0x7bff);
  CHECK(bits(ANELLO_FLOAT16, 65519) == 0x7bff);
  CHECK(bits(ANELLO_FLOAT16, 65520) == 0x7c00);
  CHECK(bits(ANELLO_FLOAT16, 1e300) == 0x7c00);
  CHECK(bits(ANELLO_FLOAT16, 2049) == bits(ANELLO_FLOAT16, 2048));
  CHECK(bits(ANELLO_FLOAT16, 2051) == bits(ANELLO_FLOAT16, 2052));
  CHECK(bits(ANELLO_FLOAT16, std::ldexp(1, -24)) == 0x0001);
  CHECK(bits(ANELLO_FLOAT16, std::ldexp(1, -25)) == 0x0000);
  CHECK(bits(ANELLO_FLOAT16, std::ldexp(1023.75, -24)) == 0x0400);  // a subnormal rounds up into the normal numbers
}

TEST_CASE("bfloat16 is the rounded upper half of a float32") {
  CHECK(bits(ANELLO_BFLOAT16, 1) == 0x3f80);
  CHECK(bits(ANELLO_BFLOAT16, 256) == 0x4380);
  CHECK(bits(ANELLO_BFLOAT16, 257) == 0x4380);
  CHECK(bits(ANELLO_BFLOAT16, 259) == 0x4382);
  CHECK(bits(ANELLO_BFLOAT16, std::numeric_limits<double>::infinity()) == 0x7f80);
}

TEST_CASE("every 16-bit number survives decoding and encoding") {
  for (anello_dtype_t dtype : {ANELLO_FLOAT16, ANELLO_BFLOAT16}) {
    int changed = 0;
    for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
      const auto element = static_cast<std::uint16_t>(pattern);
      std::array<unsigned char, 2> bytes{};
      std::memcpy(bytes.data(), &element, sizeof element);
      const double value = perf::decode(dtype, bytes.data()).value;
      if (!std::isnan(value) && bits(dtype, value) != element) ++changed;
    }
    CHECK(changed == 0);
  }
}

TEST_CASE("8-bit floats have their published encodings; past the end E4M3 is NaN and E5M2 infinity") {
  CHECK(bits(ANELLO_FLOAT8_E4M3, 1) == 0x38);
  CHECK(bits(ANELLO_FLOAT8_E4M3, 448) == 0x7e);
  CHECK(bits(ANELLO_FLOAT8_E4M3, 464) == 0x7e);
  CHECK(bits(ANELLO_FLOAT8_E4M3, -465) == 0x7f);
  CHECK(bits(ANELLO_FLOAT8_E4M3, 1e300) == 0x7f);
  CHECK(bits(ANELLO_FLOAT8_E4M3, -std::ldexp(1, -9)) == 0x81);
  CHECK(bits(ANELLO_FLOAT8_E4M3, std::ldexp(1, -10)) == 0x00);
  CHECK(bits(ANELLO_FLOAT8_E5M2, 1) == 0x3c);
  CHECK(bits(ANELLO_FLOAT8_E5M2, 57344) == 0x7b);
  CHECK(bits(ANELLO_FLOAT8_E5M2, -61440) == 0xfc);
  CHECK(std::isnan(through(ANELLO_FLOAT8_E4M3, 500)));
  CHECK(std::isinf(through(ANELLO_FLOAT8_E5M2, 1e9)));
}

TEST_CASE("complex numbers and pairs keep both parts, and padding is 0") {
  std::array<unsigned char, 16> element;
  for (anello_dtype_t dtype : {ANELLO_COMPLEX64, ANELLO_COMPLEX128, ANELLO_FLOAT32_INT, ANELLO_FLOAT64_INT,
                               ANELLO_INT32_INT, ANELLO_INT64_INT}) {
    element.fill(0xee);
    perf::encode(dtype, {-7, 31}, element.data());
    CHECK(perf::decode(dtype, element.data()).value == -7);
    CHECK(perf::decode(dtype, element.data()).second == 31);
    const bool padded = dtype == ANELLO_FLOAT64_INT || dtype == ANELLO_INT64_INT;
    if (padded) CHECK(element[15] == 0);
  }
}

TEST_CASE("integers wrap") {
  CHECK(through(ANELLO_UINT8, 259) == 3);
  CHECK(through(ANELLO_INT8, 130) == -126);
  CHECK(through(ANELLO_UINT16, 65537) == 1);
  CHECK(through(ANELLO_UINT32, -1) == 4294967295.0);
  CHECK(through(ANELLO_UINT64, std::ldexp(1, 63)) == std::ldexp(1, 63));
  CHECK(through(ANELLO_INT32, 2147483648.0) == -2147483648.0);
  CHECK(through(ANELLO_INT64, std::ldexp(1, 63)) == -std::ldexp(1, 63));
  CHECK(through(ANELLO_INT64, std::ldexp(1, 64)) == 0);
  CHECK(through(ANELLO_INT64, -5) == -5);
}
