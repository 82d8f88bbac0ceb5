#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"

#include <cfenv>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace anello::kernels {
namespace {

bool rounds_upwards() {
  volatile float one = 1.0f, little = 0x1p-30f;
  return one + little > 1.0f;
}

TEST_CASE("the caller's rounding mode is set aside and comes back") {
  std::fesetround(FE_UPWARD);
  const bool before = rounds_upwards();
  bool inside = true;
  {
    const DefaultFloats guard;
    inside = rounds_upwards();
  }
  const bool after = rounds_upwards();
  std::fesetround(FE_TONEAREST);
  CHECK(before);
  CHECK(!inside);
  CHECK(after);
}

#if defined(__SSE__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kUpward = 0x4000;

TEST_CASE("flush-to-zero, denormals-are-zero and unmasked exceptions are set aside and come back") {
  const unsigned before = _mm_getcsr();
  const unsigned hostile = (before | kFlushToZero | kDenormalsAreZero) & ~0x0080u;  // invalid operation traps
  _mm_setcsr(hostile);
  unsigned inside = 0;
  {
    const DefaultFloats guard;
    inside = _mm_getcsr();
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((inside & ~0x3fu) == 0x1f80);
  CHECK(after == hostile);
}

TEST_CASE("a caller with flush-to-zero and rounding upwards gets the same bits from every kernel") {
  std::mt19937_64 random(3);
  constexpr std::size_t kCount = 3001;
  for (const auto& row : testing::all_dtypes()) {
    for (const anello_op_t op : testing::ops_of(row.dtype)) {
      for (const Level level : usable_levels()) {
        const Reducer& chosen = reducer(level, row.dtype, op);
        const auto left = testing::operands(row.dtype, kCount, random);
        const auto right = testing::operands(row.dtype, kCount, random);
        const auto run = [&] {
          std::vector<unsigned char> into(left.size()), accumulator(kCount * chosen.accumulator_bytes);
          std::vector<unsigned char> finished(left.size()), in_type(left.size());
          chosen.reduce(into.data(), left.data(), right.data(), kCount);
          chosen.widen(accumulator.data(), left.data(), kCount);
          chosen.accumulate(accumulator.data(), right.data(), kCount);
          chosen.finish(finished.data(), accumulator.data(), kCount, 3);
          chosen.finish_in_type(in_type.data(), left.data(), kCount, 3);
          into.insert(into.end(), accumulator.begin(), accumulator.end());
          into.insert(into.end(), finished.begin(), finished.end());
          into.insert(into.end(), in_type.begin(), in_type.end());
          return into;
        };
        const auto expected = run();
        const unsigned before = _mm_getcsr();
        _mm_setcsr(before | kFlushToZero | kDenormalsAreZero | kUpward);
        const auto got = run();
        _mm_setcsr(before);
        INFO(dtype_name(row.dtype) << " " << op_name(op) << " at " << level_name(level));
        CHECK((got == expected));
      }
    }
  }
}
#endif

}  // namespace
}  // namespace anello::kernels
