// The benchmark's judge: it must know the right result, and see every kind of wrong one.
#include "perf/pattern.h"

#include "perf/buffer.h"
#include "perf/number.h"
#include "support/catch.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace perf;

namespace {

// Those that hold all these small numbers exactly, or wrap.
constexpr std::array kTypes{ANELLO_FLOAT32,  ANELLO_FLOAT64, ANELLO_INT32, ANELLO_INT64,  ANELLO_UINT8,  ANELLO_FLOAT16,
                            ANELLO_BFLOAT16, ANELLO_INT8,    ANELLO_INT16, ANELLO_UINT16, ANELLO_UINT32, ANELLO_UINT64};
constexpr std::array kOps{ANELLO_SUM, ANELLO_PROD, ANELLO_MIN,  ANELLO_MAX, ANELLO_AVG, ANELLO_BAND,
                          ANELLO_BOR, ANELLO_BXOR, ANELLO_LAND, ANELLO_LOR, ANELLO_LXOR};
constexpr std::size_t kCount = 3 * kPeriod + 17;

double at(const Block& block, anello_dtype_t dtype, std::size_t i) {
  return decode(dtype, block.data() + i * anello_dtype_size(dtype)).value;
}

// A buffer that holds the block as it should, from element `first` on.
std::vector<unsigned char> filled(const Block& block, std::size_t element, std::size_t first,
                                  std::size_t count = kCount) {
  std::vector<unsigned char> buffer(count * element);
  fill(buffer.data(), count, element, block, first);
  return buffer;
}

// In plain int64, where nothing wraps or rounds for these few ranks.
std::int64_t plain(anello_op_t op, const std::vector<std::int64_t>& values) {
  std::int64_t result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::int64_t next = values[i];
    switch (op) {
      case ANELLO_SUM:
      case ANELLO_AVG: result += next; break;
      case ANELLO_PROD: result *= next; break;
      case ANELLO_MIN: result = next < result ? next : result; break;
      case ANELLO_MAX: result = next > result ? next : result; break;
      case ANELLO_BAND: result &= next; break;
      case ANELLO_BOR: result |= next; break;
      case ANELLO_BXOR: result ^= next; break;
      case ANELLO_LAND: result = result != 0 && next != 0; break;
      case ANELLO_LOR: result = result != 0 || next != 0; break;
      case ANELLO_LXOR: result = (result != 0) != (next != 0); break;
      default: FAIL("no operation of single numbers");
    }
  }
  return op == ANELLO_AVG ? result / static_cast<std::int64_t>(values.size()) : result;
}

}  // namespace

TEST_CASE("the expected reduction is what plain integers give, exactly, in every type") {
  for (anello_dtype_t dtype : kTypes) {
    for (anello_op_t op : kOps) {
      if (!makes_sense(dtype, op)) continue;
      for (int ranks : {1, 2, 3, 5, 8}) {
        std::vector<Block> inputs;
        for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input(dtype, op, rank, ranks, 7));
        const Block expected = reduced(dtype, op, ranks, 7);
        int differing = 0;
        for (std::size_t i = 0; i < kPeriod; ++i) {
          std::vector<std::int64_t> values;
          for (const Block& block : inputs) values.push_back(static_cast<std::int64_t>(at(block, dtype, i)));
          const double result = at(expected, dtype, i);
          const auto right = plain(op, values);
          // Eight factors of two do not fit a byte.
          std::array<unsigned char, 8> held{};
          encode(dtype, static_cast<double>(right), held.data());
          const double wrapped = decode(dtype, held.data()).value;
          if (result != wrapped) ++differing;
        }
        INFO(anello_dtype_name(dtype) << " " << anello_op_name(op) << " " << ranks << " ranks");
        CHECK(differing == 0);
      }
    }
  }
}

TEST_CASE("both parts of complex numbers and pairs are reduced") {
  const auto part = [](const Block& block, anello_dtype_t dtype, std::size_t i) {
    return decode(dtype, block.data() + i * anello_dtype_size(dtype));
  };
  for (anello_dtype_t dtype : {ANELLO_COMPLEX64, ANELLO_COMPLEX128}) {
    const Block left = input(dtype, ANELLO_PROD, 0, 2, 3), right = input(dtype, ANELLO_PROD, 1, 2, 3);
    const Block product = reduced(dtype, ANELLO_PROD, 2, 3), sum = reduced(dtype, ANELLO_SUM, 2, 3);
    std::size_t imaginary = 0, differing = 0;
    for (std::size_t i = 0; i < kPeriod; ++i) {
      const Number l = part(left, dtype, i), r = part(right, dtype, i), got = part(product, dtype, i);
      differing +=
          got.value != l.value * r.value - l.second * r.second || got.second != l.value * r.second + l.second * r.value;
      imaginary += got.second != 0 && part(sum, dtype, i).second != part(sum, dtype, i).value;
    }
    CHECK(differing == 0);
    CHECK(imaginary > kPeriod / 4);
  }
  for (anello_dtype_t dtype : {ANELLO_FLOAT32_INT, ANELLO_FLOAT64_INT, ANELLO_INT32_INT, ANELLO_INT64_INT}) {
    for (anello_op_t op : {ANELLO_MINLOC, ANELLO_MAXLOC}) {
      const Block left = input(dtype, op, 0, 2, 3), right = input(dtype, op, 1, 2, 3), found = reduced(dtype, op, 2, 3);
      std::size_t ties = 0, differing = 0;
      for (std::size_t i = 0; i < kPeriod; ++i) {
        const Number l = part(left, dtype, i), r = part(right, dtype, i), got = part(found, dtype, i);
        const bool tie = l.value == r.value;
        const bool takes_left = tie ? l.second <= r.second : (l.value < r.value) == (op == ANELLO_MINLOC);
        ties += tie;
        differing += got.value != (takes_left ? l : r).value || got.second != (takes_left ? l : r).second;
      }
      CHECK(differing == 0);
      CHECK(ties > kPeriod / 20);
    }
  }
}

TEST_CASE("ranks and seeds have different data") {
  for (anello_op_t op : {ANELLO_SUM, ANELLO_PROD, ANELLO_MIN, ANELLO_MAX, ANELLO_AVG}) {
    CHECK(input(ANELLO_FLOAT32, op, 0, 4, 1) != input(ANELLO_FLOAT32, op, 1, 4, 1));
    CHECK(input(ANELLO_FLOAT32, op, 0, 4, 1) != input(ANELLO_FLOAT32, op, 0, 4, 2));
  }
  CHECK(moved(ANELLO_UINT8, 0, 1) != moved(ANELLO_UINT8, 1, 1));
}

TEST_CASE("a right buffer has no wrong element, wherever it begins") {
  const Block block = reduced(ANELLO_BFLOAT16, ANELLO_SUM, 3, 0);
  for (std::size_t first : {std::size_t{0}, std::size_t{1}, kPeriod - 1, kPeriod, 5 * kPeriod + 3}) {
    CHECK(wrong(filled(block, 2, first).data(), kCount, 2, block, first) == 0);
  }
  CHECK(wrong(nullptr, 0, 2, block, 0) == 0);
}

TEST_CASE("one changed bit is one wrong element") {
  const Block block = moved(ANELLO_FLOAT64, 2, 0);
  for (std::size_t place : {std::size_t{0}, 8 * kPeriod - 1, 8 * kPeriod, 8 * kCount - 1}) {
    auto buffer = filled(block, 8, 0);
    buffer[place] ^= 0x10;
    CHECK(wrong(buffer.data(), kCount, 8, block, 0) == 1);
  }
}

TEST_CASE("data in the wrong place is seen, by one element and by a chunk") {
  const Block block = moved(ANELLO_INT32, 0, 0);
  for (std::size_t shift : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, std::size_t{65536}}) {
    CHECK(wrong(filled(block, 4, shift).data(), kCount, 4, block, 0) > static_cast<std::int64_t>(kCount * 9 / 10));
  }
}

TEST_CASE("a rank left out, counted twice or taken for another is seen in most elements") {
  for (anello_dtype_t dtype : kTypes) {
    const std::size_t element = anello_dtype_size(dtype);
    const Block expected = reduced(dtype, ANELLO_SUM, 4, 0);
    for (double times : {-1.0, 1.0}) {  // minus rank 2, or rank 2 once more
      Block faulty = expected;
      const Block extra = input(dtype, ANELLO_SUM, 2, 4, 0);
      for (std::size_t i = 0; i < kPeriod; ++i) {
        encode(dtype, at(expected, dtype, i) + times * at(extra, dtype, i), faulty.data() + i * element);
      }
      CHECK(wrong(faulty.data(), kPeriod, element, expected, 0) > static_cast<std::int64_t>(kPeriod / 2));
    }
    CHECK(wrong(moved(dtype, 1, 0).data(), kPeriod, element, moved(dtype, 2, 0), 0) >
          static_cast<std::int64_t>(kPeriod / 2));
  }
}

TEST_CASE("a buffer that nobody wrote is wrong throughout") {
  const Block block = reduced(ANELLO_FLOAT32, ANELLO_SUM, 2, 0);
  const std::vector<unsigned char> buffer(kCount * 4, 0x5c);
  CHECK(wrong(buffer.data(), kCount, 4, block, 0) == static_cast<std::int64_t>(kCount));
}

TEST_CASE("a byte written beside a buffer is seen on either side") {
  Buffer buffer(1000, Memory::allocated, ANELLO_COMM_NULL);
  buffer.guard(100);
  std::memset(buffer.data(), 1, 100);
  CHECK(buffer.damage() == 0);
  buffer.data()[100] ^= 1;
  CHECK(buffer.damage() == 1);
  buffer.data()[-1] ^= 1;
  CHECK(buffer.damage() == 2);
  buffer.guard(1000);
  CHECK(buffer.damage() == 0);
}
