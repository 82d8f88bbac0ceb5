#pragma once
// Bytes of operands that are worth reducing: random ones, and the corners of every type.
#include "base/dtype.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace anello::testing {

struct DtypeRow {
  anello_dtype_t dtype;
  bool floating;
};
inline const std::vector<DtypeRow>& all_dtypes() {
  static const std::vector<DtypeRow> rows = {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) {enumerator, type_class == kFloat},
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  };
  return rows;
}
// The operations that make sense for it.
inline std::vector<anello_op_t> ops_of(anello_dtype_t dtype) {
  std::vector<anello_op_t> ops;
#define ANELLO_OP(enumerator, name, classes) \
  if (makes_sense(dtype, enumerator)) ops.push_back(enumerator);
#include "base/ops.def"
#undef ANELLO_OP
  return ops;
}

// Zeros, denormals, the ends, infinities and NaNs (quiet, signalling, with payload), each with both signs; for integers
// the ends and what surrounds zero. As bit patterns of bytes bytes; exponent_bits is 0 for integers.
inline std::vector<std::uint64_t> corner_patterns(std::size_t bytes, int exponent_bits) {
  const int bits = static_cast<int>(8 * bytes);
  const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  if (exponent_bits == 0) return {0, 1, 2, 3, all, all - 1, sign, sign - 1, sign + 1, 127 & all, 128 & all};
  const int mantissa_bits = bits - 1 - exponent_bits;
  const std::uint64_t normal = std::uint64_t{1} << mantissa_bits;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const std::uint64_t one = ((std::uint64_t{1} << (exponent_bits - 1)) - 1) << mantissa_bits;
  const std::uint64_t quiet_nan = infinity + normal / 2;
  std::vector<std::uint64_t> patterns = {0,
                                         1,
                                         normal - 1,
                                         normal,
                                         normal + 1,
                                         one,
                                         one + 1,
                                         infinity - 1,
                                         infinity,
                                         infinity + 1,
                                         quiet_nan,
                                         quiet_nan + 3,
                                         infinity + normal - 1};
  for (std::size_t i = 0, positive = patterns.size(); i < positive; ++i) patterns.push_back(patterns[i] | sign);
  return patterns;
}

inline int exponent_bits(anello_dtype_t dtype) {
  switch (dtype) {
    case ANELLO_FLOAT32: return 8;
    case ANELLO_FLOAT64: return 11;
    case ANELLO_FLOAT16: return 5;
    case ANELLO_BFLOAT16: return 8;
    case ANELLO_FLOAT8_E4M3: return 4;
    case ANELLO_FLOAT8_E5M2: return 5;
    default: return 0;
  }
}

// What a complex number has two of, and a pair has one of before its index; else the type itself.
inline anello_dtype_t part_of(anello_dtype_t dtype) {
  switch (dtype) {
    case ANELLO_COMPLEX64:
    case ANELLO_FLOAT32_INT: return ANELLO_FLOAT32;
    case ANELLO_COMPLEX128:
    case ANELLO_FLOAT64_INT: return ANELLO_FLOAT64;
    case ANELLO_INT32_INT: return ANELLO_INT32;
    case ANELLO_INT64_INT: return ANELLO_INT64;
    default: return dtype;
  }
}

// A third corners, a third any bits, a third numbers near one (where sums round rather than vanish).
inline std::uint64_t part_operand(anello_dtype_t dtype, std::mt19937_64& random) {
  const int bits = static_cast<int>(8 * dtype_bytes(dtype));
  const int exponent = exponent_bits(dtype);
  std::uint64_t pattern = random();
  const std::uint64_t kind = random() % 3;
  if (kind == 0) {
    const std::vector<std::uint64_t> corners = corner_patterns(dtype_bytes(dtype), exponent);
    pattern = corners[random() % corners.size()];
  }
  if (kind == 1 && exponent != 0) {
    // The exponent's upper bits as one has them, its lowest three random.
    const int mantissa_bits = bits - 1 - exponent;
    const std::uint64_t field = (std::uint64_t{1} << exponent) - 1;
    const std::uint64_t near_one = ((field >> 1) & ~std::uint64_t{7}) | (pattern >> 60 & 7);
    pattern = (pattern & ~(field << mantissa_bits)) | (near_one << mantissa_bits);
  }
  return pattern;
}

inline std::vector<unsigned char> operands(anello_dtype_t dtype, std::size_t count, std::mt19937_64& random) {
  const std::size_t bytes = dtype_bytes(dtype);
  const anello_dtype_t part = part_of(dtype);
  const std::size_t part_bytes = dtype_bytes(part);
  std::vector<unsigned char> data(count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    unsigned char* const at = data.data() + i * bytes;
    std::uint64_t words[2] = {part_operand(part, random), 0};
    std::memcpy(at, words, part_bytes);  // little-endian, as all of Anello is
    if (bytes == part_bytes) continue;
    // A second part, or an index (few different ones, of both signs) with whatever lies in the padding.
    const std::uint64_t index = random();
    words[1] = class_of(dtype) == kPair
                   ? (index & ~std::uint64_t{0xffffffff}) | static_cast<std::uint32_t>(index % 5 - 2)
                   : part_operand(part, random);
    std::memcpy(at + part_bytes, &words[1], part_bytes);
  }
  return data;
}

}  // namespace anello::testing
