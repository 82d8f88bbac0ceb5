// MINLOC and MAXLOC, by definition.
#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace anello::kernels {
namespace {

// Whether left's value comes before right's, NaN before all; -0 is less than +0.
template <class Value>
bool before(bool least, Value left, Value right) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && !std::isnan(right);
    if (left == 0 && right == 0) return std::signbit(left) != std::signbit(right) && std::signbit(left) == least;
  }
  return least ? left < right : left > right;
}

template <class Pair>
Pair winner(bool least, Pair left, Pair right) {
  using Value = decltype(Pair::value);
  Pair chosen = left;
  if (before(least, right.value, left.value)) {
    chosen = right;
  } else if (!before(least, left.value, right.value)) {
    chosen.index = std::min(left.index, right.index);
  }
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(chosen.value)) chosen.value = std::numeric_limits<Value>::quiet_NaN();
  }
  return chosen;
}

template <class Pair>
void check(anello_dtype_t dtype) {
  constexpr std::size_t kCount = 5003;
  std::mt19937_64 random(29);
  const auto left = testing::operands(dtype, kCount, random);
  auto right = testing::operands(dtype, kCount, random);
  // Equal values often, and next to equal ones.
  for (std::size_t i = 0; i < kCount; i += 3) {
    std::memcpy(right.data() + i * sizeof(Pair), left.data() + i * sizeof(Pair), sizeof(decltype(Pair::value)));
  }
  std::size_t ties = 0;
  for (const anello_op_t op : {ANELLO_MINLOC, ANELLO_MAXLOC}) {
    for (const Level level : usable_levels()) {
      std::vector<unsigned char> got(left.size());
      reducer(level, dtype, op).reduce(got.data(), left.data(), right.data(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        Pair l, r;
        std::memcpy(&l, left.data() + i * sizeof(Pair), sizeof l);
        std::memcpy(&r, right.data() + i * sizeof(Pair), sizeof r);
        const Pair expected = winner(op == ANELLO_MINLOC, l, r);
        ties += l.value == r.value && l.index != r.index;
        unsigned char bytes[sizeof(Pair)] = {};  // the padding too
        std::memcpy(bytes, &expected.value, sizeof expected.value);
        std::memcpy(bytes + sizeof expected.value, &expected.index, sizeof expected.index);
        if (std::memcmp(bytes, got.data() + i * sizeof(Pair), sizeof bytes) != 0) {
          FAIL(dtype_name(dtype) << " " << op_name(op) << " at " << level_name(level) << " of (" << l.value << ", "
                                 << l.index << ") and (" << r.value << ", " << r.index << ") is not (" << expected.value
                                 << ", " << expected.index << ")");
        }
      }
    }
  }
  CHECK(ties > kCount / 10);
}

TEST_CASE("the extreme value comes with its index, of equal ones with the lowest, and NaN wins") {
  check<anello_float32_int_t>(ANELLO_FLOAT32_INT);
  check<anello_float64_int_t>(ANELLO_FLOAT64_INT);
  check<anello_int32_int_t>(ANELLO_INT32_INT);
  check<anello_int64_int_t>(ANELLO_INT64_INT);
}

TEST_CASE("pairs lie as the header's structs do") {
  CHECK(dtype_bytes(ANELLO_FLOAT32_INT) == 8);
  CHECK(dtype_bytes(ANELLO_FLOAT64_INT) == 16);
  CHECK(dtype_bytes(ANELLO_INT32_INT) == 8);
  CHECK(dtype_bytes(ANELLO_INT64_INT) == 16);
  CHECK(offsetof(anello_float64_int_t, index) == 8);
}

}  // namespace
}  // namespace anello::kernels
