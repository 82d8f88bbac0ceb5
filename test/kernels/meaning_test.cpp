// What each operation means, in arithmetic written a second time and element by element.
#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"
#include "support/small_float.h"

#include <bit>
#include <limits>

namespace anello::kernels {
namespace {

__extension__ using Int128 = __int128;

template <class T>
T element(const std::vector<unsigned char>& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// The whole reduction of two operands (for AVG with its division by ranks).
template <class T>
std::vector<unsigned char> reduced(anello_dtype_t dtype, anello_op_t op, const std::vector<unsigned char>& left,
                                   const std::vector<unsigned char>& right, int ranks) {
  const std::size_t count = left.size() / sizeof(T);
  std::vector<unsigned char> into(left.size());
  const Reducer& chosen = reducer(dtype, op);
  chosen.reduce(into.data(), left.data(), right.data(), count);
  chosen.finish_in_type(into.data(), into.data(), count, ranks);
  return into;
}

template <class T>
void check_integers(anello_dtype_t dtype) {
  constexpr std::size_t kCount = 4000;
  constexpr int kRanks = 3;
  std::mt19937_64 random(5);
  const auto left = testing::operands(dtype, kCount, random), right = testing::operands(dtype, kCount, random);
  for (const anello_op_t op : testing::ops_of(dtype)) {
    const auto got = reduced<T>(dtype, op, left, right, kRanks);
    for (std::size_t i = 0; i < kCount; ++i) {
      const Int128 l = element<T>(left, i), r = element<T>(right, i);
      T expected = static_cast<T>(l + r);  // keeps the low bits: wraps
      if (op == ANELLO_PROD) expected = static_cast<T>(l * r);
      if (op == ANELLO_MIN) expected = static_cast<T>(l < r ? l : r);
      if (op == ANELLO_MAX) expected = static_cast<T>(l > r ? l : r);
      if (op == ANELLO_AVG) expected = static_cast<T>(Int128{expected} / kRanks);
      if (op == ANELLO_BAND) expected = static_cast<T>(l & r);
      if (op == ANELLO_BOR) expected = static_cast<T>(l | r);
      if (op == ANELLO_BXOR) expected = static_cast<T>(l ^ r);
      if (op == ANELLO_LAND) expected = l != 0 && r != 0;
      if (op == ANELLO_LOR) expected = l != 0 || r != 0;
      if (op == ANELLO_LXOR) expected = (l != 0) != (r != 0);
      if (element<T>(got, i) != expected) {
        FAIL(dtype_name(dtype) << " " << op_name(op) << " of element " << i << " is " << +element<T>(got, i)
                               << " instead of " << +expected);
      }
    }
  }
}

// Lower and upper as the standard of 2019 has them: NaN wins, -0 below +0.
template <class T>
T selected(bool lower, T l, T r) {
  if (std::isnan(l) || std::isnan(r)) return std::numeric_limits<T>::quiet_NaN();
  if (l == 0 && r == 0) return std::signbit(l) == lower ? l : r;
  return (l < r) == lower ? l : r;
}

template <class T, class Bits>
void check_floats(anello_dtype_t dtype) {
  constexpr std::size_t kCount = 4000;
  constexpr int kRanks = 3;
  const Bits canonical = std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  std::mt19937_64 random(6);
  const auto left = testing::operands(dtype, kCount, random), right = testing::operands(dtype, kCount, random);
  for (const anello_op_t op : testing::ops_of(dtype)) {
    const auto got = reduced<T>(dtype, op, left, right, kRanks);
    for (std::size_t i = 0; i < kCount; ++i) {
      const T l = element<T>(left, i), r = element<T>(right, i);
      T expected = l + r;
      if (op == ANELLO_PROD) expected = l * r;
      if (op == ANELLO_MIN || op == ANELLO_MAX) expected = selected(op == ANELLO_MIN, l, r);
      if (op == ANELLO_AVG) expected = expected / T{kRanks};
      const Bits bits = std::isnan(expected) ? canonical : std::bit_cast<Bits>(expected);
      if (element<Bits>(got, i) != bits) {
        FAIL(dtype_name(dtype) << " " << op_name(op) << " of " << l << " and " << r << " is " << element<T>(got, i)
                               << " instead of " << expected);
      }
    }
  }
}

template <class Bits>
void check_small(anello_dtype_t dtype, const testing::Small& format) {
  constexpr std::size_t kCount = 4000;
  constexpr int kRanks = 3;
  std::mt19937_64 random(8);
  const auto left = testing::operands(dtype, kCount, random), right = testing::operands(dtype, kCount, random);
  for (const anello_op_t op : testing::ops_of(dtype)) {
    std::vector<unsigned char> got(left.size());
    const Reducer& chosen = reducer(dtype, op);
    chosen.reduce(got.data(), left.data(), right.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto l = static_cast<float>(testing::decode(format, element<Bits>(left, i)));
      const auto r = static_cast<float>(testing::decode(format, element<Bits>(right, i)));
      float expected = l + r;
      if (op == ANELLO_PROD) expected = l * r;
      if (op == ANELLO_MIN || op == ANELLO_MAX) expected = selected(op == ANELLO_MIN, l, r);
      if (element<Bits>(got, i) != testing::encode(format, expected)) {
        FAIL(dtype_name(dtype) << " " << op_name(op) << " of " << l << " and " << r << " is pattern "
                               << +element<Bits>(got, i) << " instead of " << expected);
      }
    }
    chosen.finish_in_type(got.data(), left.data(), kCount, kRanks);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto pattern = element<Bits>(left, i);
      const auto value = static_cast<float>(testing::decode(format, pattern));
      const unsigned expected = op == ANELLO_AVG ? testing::encode(format, value / float{kRanks}) : pattern;
      if (element<Bits>(got, i) != expected) {
        FAIL(dtype_name(dtype) << " " << op_name(op) << " finishes " << value << " as " << +element<Bits>(got, i)
                               << " instead of " << expected);
      }
    }
  }
}

// Every pair of patterns; a sum or product of two is exact in long double, so this rounds once.
void check_all_pairs(anello_dtype_t dtype, const testing::Small& format) {
  std::vector<unsigned char> left(0x10000), right(0x10000), got(0x10000);
  for (unsigned i = 0; i < 0x10000; ++i) {
    left[i] = static_cast<unsigned char>(i);
    right[i] = static_cast<unsigned char>(i >> 8);
  }
  for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD, ANELLO_MIN, ANELLO_MAX}) {
    for (const Level level : usable_levels()) {
      reducer(level, dtype, op).reduce(got.data(), left.data(), right.data(), got.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const long double l = testing::decode(format, left[i]), r = testing::decode(format, right[i]);
        long double expected = op == ANELLO_PROD ? l * r : l + r;
        if (op == ANELLO_MIN || op == ANELLO_MAX) expected = selected(op == ANELLO_MIN, l, r);
        if (got[i] != testing::encode(format, expected)) {
          FAIL(dtype_name(dtype) << " " << op_name(op) << " at " << level_name(level) << " of " << l << " and " << r
                                 << " is pattern " << int{got[i]} << " instead of " << expected);
        }
      }
    }
  }
}

void check_bools() {
  std::vector<unsigned char> left(0x10000), right(0x10000), got(0x10000);
  for (unsigned i = 0; i < 0x10000; ++i) {
    left[i] = static_cast<unsigned char>(i);
    right[i] = static_cast<unsigned char>(i >> 8);
  }
  for (const anello_op_t op : testing::ops_of(ANELLO_BOOL)) {
    reducer(ANELLO_BOOL, op).reduce(got.data(), left.data(), right.data(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool l = left[i] != 0, r = right[i] != 0;
      bool expected = l != r;
      if (op == ANELLO_SUM || op == ANELLO_MAX || op == ANELLO_LOR || op == ANELLO_BOR) expected = l || r;
      if (op == ANELLO_PROD || op == ANELLO_MIN || op == ANELLO_LAND || op == ANELLO_BAND) expected = l && r;
      if (got[i] != int{expected}) {
        FAIL(op_name(op) << " of " << int{left[i]} << " and " << int{right[i]} << " is " << int{got[i]});
      }
    }
  }
}

TEST_CASE("integers wrap in sums and products, and their average truncates towards zero") {
  check_integers<std::int32_t>(ANELLO_INT32);
  check_integers<std::int64_t>(ANELLO_INT64);
  check_integers<std::int8_t>(ANELLO_INT8);
  check_integers<std::int16_t>(ANELLO_INT16);
  check_integers<std::uint8_t>(ANELLO_UINT8);
  check_integers<std::uint16_t>(ANELLO_UINT16);
  check_integers<std::uint32_t>(ANELLO_UINT32);
  check_integers<std::uint64_t>(ANELLO_UINT64);
}

TEST_CASE("floats keep denormals, propagate NaN as the canonical one, and put -0 below +0") {
  check_floats<float, std::uint32_t>(ANELLO_FLOAT32);
  check_floats<double, std::uint64_t>(ANELLO_FLOAT64);
}

TEST_CASE("16- and 8-bit floats are combined in float32 and rounded to nearest even") {
  check_small<std::uint16_t>(ANELLO_FLOAT16, testing::kFloat16);
  check_small<std::uint16_t>(ANELLO_BFLOAT16, testing::kBFloat16);
  check_small<std::uint8_t>(ANELLO_FLOAT8_E4M3, testing::kFloat8E4M3);
  check_small<std::uint8_t>(ANELLO_FLOAT8_E5M2, testing::kFloat8E5M2);
}

TEST_CASE("all pairs of 8-bit floats have the exact result, rounded, at every level") {
  check_all_pairs(ANELLO_FLOAT8_E4M3, testing::kFloat8E4M3);
  check_all_pairs(ANELLO_FLOAT8_E5M2, testing::kFloat8E5M2);
}

TEST_CASE("any non-zero byte is true, and what is computed is 0 or 1") { check_bools(); }

TEST_CASE("a reducer says what it needs") {
  for (const auto& row : testing::all_dtypes()) {
    for (const anello_op_t op : testing::ops_of(row.dtype)) {
      INFO(dtype_name(row.dtype) << " " << op_name(op));
      const Reducer& chosen = reducer(row.dtype, op);
      const bool small = class_of(row.dtype) == kFloat && dtype_bytes(row.dtype) < 4;
      const bool selects = op == ANELLO_MIN || op == ANELLO_MAX;
      CHECK(chosen.element_bytes == dtype_bytes(row.dtype));
      CHECK(chosen.accumulates == (small && !selects));
      CHECK(chosen.accumulator_bytes == (chosen.accumulates ? sizeof(float) : chosen.element_bytes));
      CHECK(chosen.finishes == (op == ANELLO_AVG));
      chosen.reduce(nullptr, nullptr, nullptr, 0);
      chosen.widen(nullptr, nullptr, 0);
      chosen.accumulate(nullptr, nullptr, 0);
      chosen.finish(nullptr, nullptr, 0, 4);
      chosen.finish_in_type(nullptr, nullptr, 0, 4);
    }
  }
}

TEST_CASE("what makes no sense has no kernel") {
  for (int dtype = 0; dtype < kDtypes; ++dtype) {
    for (int op = 0; op < kOps; ++op) {
      const Reducer& row = reducer(static_cast<anello_dtype_t>(dtype), static_cast<anello_op_t>(op));
      const bool makes = makes_sense(static_cast<anello_dtype_t>(dtype), static_cast<anello_op_t>(op));
      CHECK((row.reduce != nullptr) == makes);
      CHECK((row.finish_in_type != nullptr) == makes);
    }
  }
}

}  // namespace
}  // namespace anello::kernels
