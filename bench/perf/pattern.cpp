#include "perf/pattern.h"

#include "perf/number.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace perf {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1) + 0xd1b54a32d192ed03u * (c + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

double value(anello_op_t op, int rank, int ranks, std::size_t i, std::uint64_t seed) {
  const std::uint64_t drawn = mixed(i, static_cast<std::uint64_t>(rank), seed);
  switch (op) {
    case ANELLO_SUM: return static_cast<double>(drawn % 8);
    // Powers of two keep the product exact until it overflows, and then every order of operands gives infinity.
    case ANELLO_PROD: return drawn % 4 == 0 ? 2 : 1;
    case ANELLO_MIN:
    case ANELLO_MAX: return static_cast<double>(drawn % 128);
    // The ranks' values are the even numbers from a base on, in an order that turns with i: their average is whole.
    case ANELLO_AVG: {
      const std::uint64_t base = mixed(i, 0, seed) % 4;
      const std::uint64_t turn = mixed(i, 1, seed) % static_cast<std::uint64_t>(ranks);
      return static_cast<double>(base + 2 * ((static_cast<std::uint64_t>(rank) + turn) %
                                             static_cast<std::uint64_t>(ranks)));
    }
  }
  return 0;
}

double combine(anello_op_t op, double left, double right) {
  switch (op) {
    case ANELLO_SUM:
    case ANELLO_AVG: return left + right;
    case ANELLO_PROD: return left * right;
    case ANELLO_MIN: return std::min(left, right);
    case ANELLO_MAX: return std::max(left, right);
  }
  return 0;
}

bool is_integer(anello_dtype_t dtype) {
  return dtype == ANELLO_INT32 || dtype == ANELLO_INT64 || dtype == ANELLO_UINT8;
}

double wrapped(anello_dtype_t dtype, double number) {
  unsigned char element[8];
  encode(dtype, number, element);
  return decode(dtype, element);
}

template <class Value>
Block encoded(anello_dtype_t dtype, const Value& at) {
  const std::size_t bytes = anello_dtype_size(dtype);
  Block block(kPeriod * bytes);
  for (std::size_t i = 0; i < kPeriod; ++i) encode(dtype, at(i), block.data() + i * bytes);
  return block;
}

}  // namespace

Block input(anello_dtype_t dtype, anello_op_t op, int rank, int ranks, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) { return value(op, rank, ranks, i, seed); });
}

Block moved(anello_dtype_t dtype, int rank, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) {
    return static_cast<double>(mixed(i, static_cast<std::uint64_t>(rank), seed) % 128);
  });
}

Block reduced(anello_dtype_t dtype, anello_op_t op, int over, int ranks, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) {
    // Through the type on the way in: what a rank hands in may have been rounded already.
    double result = wrapped(dtype, value(op, 0, ranks, i, seed));
    for (int rank = 1; rank < over; ++rank) {
      result = combine(op, result, wrapped(dtype, value(op, rank, ranks, i, seed)));
      if (is_integer(dtype)) result = wrapped(dtype, result);
    }
    if (op != ANELLO_AVG) return result;
    return is_integer(dtype) ? std::trunc(result / ranks) : result / ranks;
  });
}

void fill(void* buffer, std::size_t count, std::size_t element_bytes, const Block& block, std::size_t first) {
  auto* into = static_cast<unsigned char*>(buffer);
  std::size_t at = first % kPeriod;
  while (count > 0) {
    const std::size_t piece = std::min(count, kPeriod - at);
    std::memcpy(into, block.data() + at * element_bytes, piece * element_bytes);
    into += piece * element_bytes;
    count -= piece;
    at = 0;
  }
}

std::int64_t wrong(const void* buffer, std::size_t count, std::size_t element_bytes, const Block& block,
                   std::size_t first) {
  const auto* from = static_cast<const unsigned char*>(buffer);
  std::int64_t differing = 0;
  std::size_t at = first % kPeriod;
  while (count > 0) {
    const std::size_t piece = std::min(count, kPeriod - at);
    const unsigned char* expected = block.data() + at * element_bytes;
    if (std::memcmp(from, expected, piece * element_bytes) != 0) {
      for (std::size_t i = 0; i < piece; ++i) {
        differing += std::memcmp(from + i * element_bytes, expected + i * element_bytes, element_bytes) != 0;
      }
    }
    from += piece * element_bytes;
    count -= piece;
    at = 0;
  }
  return differing;
}

}  // namespace perf
