// Complex numbers, part by part, in arithmetic written a second time.
#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"

#include <bit>
#include <cmath>
#include <limits>

namespace anello::kernels {
namespace {

// Never fused: each product and each sum is rounded.
template <class Real>
Real rounded(Real value) {
  volatile Real stored = value;
  return stored;
}

template <class Real, class Bits>
void check(anello_dtype_t dtype) {
  constexpr std::size_t kCount = 4001;
  constexpr int kRanks = 3;
  std::mt19937_64 random(23);
  const auto left = testing::operands(dtype, kCount, random), right = testing::operands(dtype, kCount, random);
  std::vector<Real> l(2 * kCount), r(2 * kCount), got(2 * kCount);
  std::memcpy(l.data(), left.data(), left.size());
  std::memcpy(r.data(), right.data(), right.size());
  for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD, ANELLO_AVG}) {
    for (const Level level : usable_levels()) {
      const Reducer& chosen = reducer(level, dtype, op);
      chosen.reduce(got.data(), left.data(), right.data(), kCount);
      chosen.finish_in_type(got.data(), got.data(), kCount, kRanks);
      for (std::size_t i = 0; i < 2 * kCount; i += 2) {
        const Real a = l[i], b = l[i + 1], c = r[i], d = r[i + 1];
        Real expected[2] = {rounded(a + c), rounded(b + d)};
        if (op == ANELLO_PROD) {
          expected[0] = rounded(rounded(a * c) - rounded(b * d));
          expected[1] = rounded(rounded(a * d) + rounded(b * c));
        }
        for (std::size_t part = 0; part < 2; ++part) {
          if (op == ANELLO_AVG) expected[part] /= Real{kRanks};
          if (std::isnan(expected[part])) expected[part] = std::numeric_limits<Real>::quiet_NaN();
          if (std::bit_cast<Bits>(got[i + part]) != std::bit_cast<Bits>(expected[part])) {
            FAIL(dtype_name(dtype) << " " << op_name(op) << " at " << level_name(level) << " of " << a << "+" << b
                                   << "i and " << c << "+" << d << "i: part " << part << " is " << got[i + part]
                                   << " instead of " << expected[part]);
          }
        }
      }
    }
  }
}

TEST_CASE("complex numbers add, average and multiply as their parts say") {
  check<float, std::uint32_t>(ANELLO_COMPLEX64);
  check<double, std::uint64_t>(ANELLO_COMPLEX128);
}

TEST_CASE("i times i is -1") {
  float i[2] = {0, 1};
  reducer(ANELLO_COMPLEX64, ANELLO_PROD).reduce(i, i, i, 1);
  CHECK(i[0] == -1);
  CHECK(i[1] == 0);
}

}  // namespace
}  // namespace anello::kernels
