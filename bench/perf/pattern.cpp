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

enum class Class { integer, floating, complex, boolean, pair, bytes };

Class class_of(anello_dtype_t dtype) {
  switch (dtype) {
    case ANELLO_INT8:
    case ANELLO_INT16:
    case ANELLO_INT32:
    case ANELLO_INT64:
    case ANELLO_UINT8:
    case ANELLO_UINT16:
    case ANELLO_UINT32:
    case ANELLO_UINT64: return Class::integer;
    case ANELLO_FLOAT32:
    case ANELLO_FLOAT64:
    case ANELLO_FLOAT16:
    case ANELLO_BFLOAT16:
    case ANELLO_FLOAT8_E4M3:
    case ANELLO_FLOAT8_E5M2: return Class::floating;
    case ANELLO_COMPLEX64:
    case ANELLO_COMPLEX128: return Class::complex;
    case ANELLO_BOOL: return Class::boolean;
    case ANELLO_FLOAT32_INT:
    case ANELLO_FLOAT64_INT:
    case ANELLO_INT32_INT:
    case ANELLO_INT64_INT: return Class::pair;
    case ANELLO_BYTE: break;
  }
  return Class::bytes;
}

bool is_integer(anello_dtype_t dtype) { return class_of(dtype) == Class::integer; }

double value(anello_op_t op, int rank, int ranks, std::size_t i, std::uint64_t seed) {
  const std::uint64_t drawn = mixed(i, static_cast<std::uint64_t>(rank), seed);
  switch (op) {
    case ANELLO_SUM:
    case ANELLO_MINLOC:
    case ANELLO_MAXLOC:
      return static_cast<double>(drawn % 8);  // for pairs: few values, so that indices decide
    // Powers of two keep the product exact until it overflows, and then every order of operands gives the same result.
    case ANELLO_PROD: return drawn % 4 == 0 ? 2 : 1;
    case ANELLO_MIN:
    case ANELLO_MAX:
    case ANELLO_BAND:
    case ANELLO_BOR:
    case ANELLO_BXOR: return static_cast<double>(drawn % 128);
    case ANELLO_LAND:
    case ANELLO_LOR:
    case ANELLO_LXOR: return drawn % 3 == 0 ? 0 : static_cast<double>(drawn % 128);
    // The ranks' values are the even numbers from a base on, in an order that rotates with i, so their average is a
    // whole number.
    case ANELLO_AVG: {
      const std::uint64_t base = mixed(i, 0, seed) % 4;
      const std::uint64_t turn = mixed(i, 1, seed) % static_cast<std::uint64_t>(ranks);
      return static_cast<double>(base +
                                 2 * ((static_cast<std::uint64_t>(rank) + turn) % static_cast<std::uint64_t>(ranks)));
    }
  }
  return 0;
}

Number handed_in(anello_dtype_t dtype, anello_op_t op, int rank, int ranks, std::size_t i, std::uint64_t seed) {
  const double first = value(op, rank, ranks, i, seed);
  const std::uint64_t other = mixed(i, static_cast<std::uint64_t>(rank), ~seed);
  if (class_of(dtype) == Class::pair) return {first, static_cast<double>(other % 1000)};
  if (class_of(dtype) == Class::boolean) return other % 8 < 5 ? 0 : first + 1;
  if (class_of(dtype) != Class::complex) return first;
  if (op != ANELLO_PROD) return {first, value(op, rank, ranks, i, ~seed)};
  // Three ranks rotate, by less than a third of a right angle each. More ranks would not stay exact, and with larger
  // angles a real part could become zero, whose sign depends on the order of operands.
  if (rank >= 3) return {first, 0};
  return {2 * first, other % 2 == 0 ? first : -first};
}

Number combine(anello_dtype_t dtype, anello_op_t op, const Number& left, const Number& right) {
  const double l = left.value, r = right.value;
  const auto bits = [](double number) { return static_cast<std::uint64_t>(number); };
  if (class_of(dtype) == Class::boolean) {
    switch (op) {
      case ANELLO_PROD:
      case ANELLO_MIN:
      case ANELLO_BAND: op = ANELLO_LAND; break;
      case ANELLO_BXOR: op = ANELLO_LXOR; break;
      case ANELLO_SUM:
      case ANELLO_MAX:
      case ANELLO_BOR: op = ANELLO_LOR; break;
      default: break;
    }
  }
  switch (op) {
    case ANELLO_SUM:
    case ANELLO_AVG: return {l + r, left.second + right.second};
    case ANELLO_PROD: return {l * r - left.second * right.second, l * right.second + left.second * r};
    case ANELLO_MIN: return std::min(l, r);
    case ANELLO_MAX: return std::max(l, r);
    case ANELLO_BAND: return static_cast<double>(bits(l) & bits(r));
    case ANELLO_BOR: return static_cast<double>(bits(l) | bits(r));
    case ANELLO_BXOR: return static_cast<double>(bits(l) ^ bits(r));
    case ANELLO_LAND: return l != 0 && r != 0 ? 1 : 0;
    case ANELLO_LOR: return l != 0 || r != 0 ? 1 : 0;
    case ANELLO_LXOR: return (l != 0) != (r != 0) ? 1 : 0;
    case ANELLO_MINLOC:
    case ANELLO_MAXLOC:
      if (l == r) return {l, std::min(left.second, right.second)};
      return (l < r) == (op == ANELLO_MINLOC) ? left : right;
  }
  return 0;
}

// The quotient of a small float is a float32 before it is rounded.
Number quotient(anello_dtype_t dtype, const Number& sum, int ranks) {
  if (is_integer(dtype)) return std::trunc(sum.value / ranks);
  const bool wide = dtype == ANELLO_FLOAT64 || dtype == ANELLO_COMPLEX128;
  if (wide) return {sum.value / ranks, sum.second / ranks};
  return {static_cast<double>(static_cast<float>(sum.value / ranks)),
          static_cast<double>(static_cast<float>(sum.second / ranks))};
}

Number wrapped(anello_dtype_t dtype, const Number& number) {
  unsigned char element[16];
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

bool makes_sense(anello_dtype_t dtype, anello_op_t op) {
  const bool locates = op == ANELLO_MINLOC || op == ANELLO_MAXLOC;
  switch (class_of(dtype)) {
    case Class::integer: return !locates;
    case Class::floating: return op <= ANELLO_AVG;
    case Class::complex: return op == ANELLO_SUM || op == ANELLO_PROD || op == ANELLO_AVG;
    case Class::boolean: return !locates && op != ANELLO_AVG;
    case Class::pair: return locates;
    case Class::bytes: return false;
  }
  return false;
}

Block input(anello_dtype_t dtype, anello_op_t op, int rank, int ranks, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) { return handed_in(dtype, op, rank, ranks, i, seed); });
}

Block moved(anello_dtype_t dtype, int rank, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) {
    const std::uint64_t drawn = mixed(i, static_cast<std::uint64_t>(rank), seed);
    return Number(static_cast<double>(drawn % 128), static_cast<double>((drawn >> 8) % 128));
  });
}

Block reduced(anello_dtype_t dtype, anello_op_t op, int over, int ranks, std::uint64_t seed) {
  return encoded(dtype, [&](std::size_t i) {
    // Converts to the type first, because a rank's input may already have been rounded.
    Number result = wrapped(dtype, handed_in(dtype, op, 0, ranks, i, seed));
    for (int rank = 1; rank < over; ++rank) {
      result = combine(dtype, op, result, wrapped(dtype, handed_in(dtype, op, rank, ranks, i, seed)));
      if (is_integer(dtype)) result = wrapped(dtype, result);
    }
    return op == ANELLO_AVG ? quotient(dtype, result, ranks) : result;
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
