// Sums of 16-bit floats over many sources, against an oracle in long double.
#include "operands.h"
#include "wide_float.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace anello::kernels {
namespace {

constexpr std::size_t kCount = 1531;

struct Type {
  anello_dtype_t dtype;
  testing::Half format;
};
constexpr Type kTypes[] = {{ANELLO_FLOAT16, testing::kFloat16}, {ANELLO_BFLOAT16, testing::kBFloat16}};

// sources[p][i], rank p's part.
using Sources = std::vector<std::vector<std::uint16_t>>;

std::vector<std::uint16_t> folded(const Reducer& chosen, const Sources& sources) {
  std::vector<float> accumulator(kCount);
  chosen.widen(accumulator.data(), sources[0].data(), kCount);
  for (std::size_t p = 1; p < sources.size(); ++p) chosen.accumulate(accumulator.data(), sources[p].data(), kCount);
  std::vector<std::uint16_t> result(kCount);
  chosen.finish(result.data(), accumulator.data(), kCount, static_cast<int>(sources.size()));
  return result;
}

// Numbers of one sign and of exponents within 2^3: P of them add up exactly in float32 (11 + 3 + 6 bits), so that
// whatever differs from the exact sum rounded once was rounded on the way.
Sources exact_sources(const Type& type, std::size_t ranks, std::mt19937_64& random) {
  Sources sources(ranks, std::vector<std::uint16_t>(kCount));
  for (auto& source : sources) {
    for (auto& pattern : source) {
      const std::uint64_t exponent = static_cast<std::uint64_t>(type.format.bias()) + random() % 4;
      pattern = static_cast<std::uint16_t>((exponent << type.format.mantissa_bits) |
                                           (random() & ((1u << type.format.mantissa_bits) - 1)));
    }
  }
  return sources;
}

TEST_CASE("a sum of 16-bit floats over P sources is the exact sum rounded once") {
  std::mt19937_64 random(13);
  for (const Type& type : kTypes) {
    for (const std::size_t ranks : {1, 2, 3, 5, 8, 17, 64}) {
      const Sources sources = exact_sources(type, ranks, random);
      for (const Level level : usable_levels()) {
        const auto sum = folded(reducer(level, type.dtype, ANELLO_SUM), sources);
        const auto average = folded(reducer(level, type.dtype, ANELLO_AVG), sources);
        for (std::size_t i = 0; i < kCount; ++i) {
          long double exact = 0;
          for (const auto& source : sources) exact += testing::decode(type.format, source[i]);
          INFO(dtype_name(type.dtype) << " over " << ranks << " at " << level_name(level) << ", element " << i);
          if (sum[i] != testing::encode(type.format, exact)) FAIL("the sum was rounded on the way");
          // The quotient is a float32 before it is 16 bits.
          const auto quotient = static_cast<float>(exact / static_cast<long double>(ranks));
          if (average[i] != testing::encode(type.format, quotient)) FAIL("the average was rounded on the way");
        }
      }
    }
  }
}

TEST_CASE("folding rounded partial sums would not pass for rounding once") {
  // The oracle above has to tell the two apart, else it shows nothing.
  std::mt19937_64 random(13);
  for (const Type& type : kTypes) {
    const Sources sources = exact_sources(type, 8, random);
    const Reducer& chosen = reducer(type.dtype, ANELLO_SUM);
    std::vector<std::uint16_t> hops = sources[0];
    for (std::size_t p = 1; p < sources.size(); ++p) chosen.reduce(hops.data(), hops.data(), sources[p].data(), kCount);
    const auto once = folded(chosen, sources);
    std::size_t differences = 0;
    for (std::size_t i = 0; i < kCount; ++i) differences += hops[i] != once[i] ? 1 : 0;
    CHECK(differences > kCount / 10);
  }
}

TEST_CASE("products and sums of any 16-bit floats equal the fold in float32, rounded at the end") {
  std::mt19937_64 random(17);
  for (const Type& type : kTypes) {
    for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD}) {
      Sources sources(5, std::vector<std::uint16_t>(kCount));
      for (auto& source : sources) {
        const auto bytes = testing::operands(type.dtype, kCount, random);
        std::memcpy(source.data(), bytes.data(), bytes.size());
      }
      const auto got = folded(reducer(type.dtype, op), sources);
      for (std::size_t i = 0; i < kCount; ++i) {
        auto fold = static_cast<float>(testing::decode(type.format, sources[0][i]));
        for (std::size_t p = 1; p < sources.size(); ++p) {
          const auto next = static_cast<float>(testing::decode(type.format, sources[p][i]));
          fold = op == ANELLO_SUM ? fold + next : fold * next;
        }
        INFO(dtype_name(type.dtype) << " " << op_name(op) << ", element " << i);
        if (got[i] != testing::encode(type.format, fold)) FAIL(got[i] << " instead of " << fold);
      }
    }
  }
}

}  // namespace
}  // namespace anello::kernels
