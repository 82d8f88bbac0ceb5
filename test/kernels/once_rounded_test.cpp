// Sums of 16- and 8-bit floats over many sources, against an oracle in long double.
#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"
#include "support/small_float.h"

#include <cmath>

namespace anello::kernels {
namespace {

constexpr std::size_t kCount = 1531;

struct Type {
  anello_dtype_t dtype;
  testing::Small format;
};
constexpr Type kTypes[] = {{ANELLO_FLOAT16, testing::kFloat16},
                           {ANELLO_BFLOAT16, testing::kBFloat16},
                           {ANELLO_FLOAT8_E4M3, testing::kFloat8E4M3},
                           {ANELLO_FLOAT8_E5M2, testing::kFloat8E5M2}};

using Patterns = std::vector<unsigned>;
// sources[p][i], rank p's part.
using Sources = std::vector<Patterns>;

std::vector<unsigned char> packed(const Type& type, const Patterns& patterns) {
  const std::size_t bytes = dtype_bytes(type.dtype);
  std::vector<unsigned char> data(patterns.size() * bytes);
  for (std::size_t i = 0; i < patterns.size(); ++i) std::memcpy(data.data() + i * bytes, &patterns[i], bytes);
  return data;
}

Patterns unpacked(const Type& type, const std::vector<unsigned char>& data) {
  const std::size_t bytes = dtype_bytes(type.dtype);
  Patterns patterns(data.size() / bytes);
  for (std::size_t i = 0; i < patterns.size(); ++i) std::memcpy(&patterns[i], data.data() + i * bytes, bytes);
  return patterns;
}

Patterns reduced(const Type& type, const Reducer& chosen, const Sources& sources) {
  std::vector<float> accumulator(kCount);
  chosen.widen(accumulator.data(), packed(type, sources[0]).data(), kCount);
  for (std::size_t p = 1; p < sources.size(); ++p) {
    chosen.accumulate(accumulator.data(), packed(type, sources[p]).data(), kCount);
  }
  std::vector<unsigned char> result(kCount * dtype_bytes(type.dtype));
  chosen.finish(result.data(), accumulator.data(), kCount, static_cast<int>(sources.size()));
  return unpacked(type, result);
}

// Numbers of one sign and of exponents within 2^3: P of them add up exactly in float32 (11 + 3 + 6 bits), so that
// whatever differs from the exact sum rounded once was rounded on the way.
Sources exact_sources(const Type& type, std::size_t ranks, std::mt19937_64& random) {
  Sources sources(ranks, Patterns(kCount));
  for (Patterns& source : sources) {
    for (unsigned& pattern : source) {
      const std::uint64_t exponent = static_cast<std::uint64_t>(type.format.bias()) + random() % 4;
      pattern = static_cast<unsigned>((exponent << type.format.mantissa_bits) |
                                      (random() & ((1u << type.format.mantissa_bits) - 1)));
    }
  }
  return sources;
}

TEST_CASE("a sum of 16- or 8-bit floats over P sources is the exact sum rounded once") {
  std::mt19937_64 random(13);
  for (const Type& type : kTypes) {
    for (const std::size_t ranks : {1, 2, 3, 5, 8, 17, 64}) {
      const Sources sources = exact_sources(type, ranks, random);
      for (const Level level : usable_levels()) {
        const auto sum = reduced(type, reducer(level, type.dtype, ANELLO_SUM), sources);
        const auto average = reduced(type, reducer(level, type.dtype, ANELLO_AVG), sources);
        for (std::size_t i = 0; i < kCount; ++i) {
          long double exact = 0;
          for (const auto& source : sources) exact += testing::decode(type.format, source[i]);
          INFO(dtype_name(type.dtype) << " over " << ranks << " at " << level_name(level) << ", element " << i);
          if (sum[i] != testing::encode(type.format, exact)) FAIL("the sum was rounded on the way");
          // The quotient is a float32 before it is small.
          const auto quotient = static_cast<float>(exact / static_cast<long double>(ranks));
          if (average[i] != testing::encode(type.format, quotient)) FAIL("the average was rounded on the way");
        }
      }
    }
  }
}

TEST_CASE("reducing rounded partial sums would not pass for rounding once") {
  // The oracle above has to tell the two apart, else it shows nothing.
  std::mt19937_64 random(13);
  for (const Type& type : kTypes) {
    const Sources sources = exact_sources(type, 8, random);
    const Reducer& chosen = reducer(type.dtype, ANELLO_SUM);
    std::vector<unsigned char> partial = packed(type, sources[0]);
    for (std::size_t p = 1; p < sources.size(); ++p) {
      chosen.reduce(partial.data(), partial.data(), packed(type, sources[p]).data(), kCount);
    }
    const Patterns hops = unpacked(type, partial), once = reduced(type, chosen, sources);
    std::size_t differences = 0;
    for (std::size_t i = 0; i < kCount; ++i) differences += hops[i] != once[i] ? 1 : 0;
    CHECK(differences > kCount / 10);
  }
}

TEST_CASE("products and sums of any 16- and 8-bit floats equal the reduction in float32, rounded at the end") {
  std::mt19937_64 random(17);
  for (const Type& type : kTypes) {
    for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD}) {
      Sources sources(5);
      for (Patterns& source : sources) source = unpacked(type, testing::operands(type.dtype, kCount, random));
      const Patterns got = reduced(type, reducer(type.dtype, op), sources);
      for (std::size_t i = 0; i < kCount; ++i) {
        auto exact = static_cast<float>(testing::decode(type.format, sources[0][i]));
        for (std::size_t p = 1; p < sources.size(); ++p) {
          const auto next = static_cast<float>(testing::decode(type.format, sources[p][i]));
          exact = op == ANELLO_SUM ? exact + next : exact * next;
        }
        INFO(dtype_name(type.dtype) << " " << op_name(op) << ", element " << i);
        if (got[i] != testing::encode(type.format, exact)) FAIL(got[i] << " instead of " << exact);
      }
    }
  }
}

}  // namespace
}  // namespace anello::kernels
