#pragma once
// Values of every type for the tests of collectives, and the sequential model of a reduction of them.
#include <anello/anello.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

namespace anello::test {

// Small whole numbers, so that sums and products are exact in every type.
inline int number(int rank, std::size_t i) { return 1 + int((std::size_t(rank) * 3 + i) % 3); }

inline float from_bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
inline std::uint16_t to_bfloat16(float value) {
  std::uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  return std::uint16_t(wide >> 16);  // exact for small whole numbers
}
// Floats of few bits, normal or zero: whole numbers that fit, exactly.
struct Narrow {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  double decode(unsigned bits) const {
    const int exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double mantissa = double(bits & ((1u << mantissa_bits) - 1)) / double(1 << mantissa_bits);
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, 1 - bias()) : std::ldexp(1 + mantissa, exponent - bias());
    return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
  }
  unsigned encode(int value) const {
    if (value == 0) return 0;
    const int exponent = std::ilogb(value);
    const double mantissa = std::ldexp(value, -exponent) - 1;
    return unsigned(exponent + bias()) << mantissa_bits | unsigned(std::ldexp(mantissa, mantissa_bits));
  }
};
inline constexpr Narrow kFloat16{5, 10}, kE4M3{4, 3}, kE5M2{5, 2};

inline void put(std::vector<unsigned char>& into, anello_dtype_t dtype, std::size_t i, int value) {
  unsigned char* at = into.data() + i * anello_dtype_size(dtype);
  const auto store = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case ANELLO_FLOAT32: return store(float(value));
    case ANELLO_FLOAT64: return store(double(value));
    case ANELLO_INT32: return store(std::int32_t(value));
    case ANELLO_INT64: return store(std::int64_t(value));
    case ANELLO_UINT8: return store(std::uint8_t(value));
    case ANELLO_INT8: return store(std::int8_t(value));
    case ANELLO_INT16: return store(std::int16_t(value));
    case ANELLO_UINT16: return store(std::uint16_t(value));
    case ANELLO_UINT32: return store(std::uint32_t(value));
    case ANELLO_UINT64: return store(std::uint64_t(value));
    case ANELLO_FLOAT16: return store(std::uint16_t(kFloat16.encode(value)));
    case ANELLO_BFLOAT16: return store(to_bfloat16(float(value)));
    case ANELLO_FLOAT8_E4M3: return store(std::uint8_t(kE4M3.encode(value)));
    case ANELLO_FLOAT8_E5M2: return store(std::uint8_t(kE5M2.encode(value)));
    case ANELLO_COMPLEX64: return store(std::complex<float>(float(value), 0));
    case ANELLO_COMPLEX128: return store(std::complex<double>(value, 0));
    default: return;  // not of kTypes
  }
}

inline double get(const std::vector<unsigned char>& from, anello_dtype_t dtype, std::size_t i) {
  const unsigned char* at = from.data() + i * anello_dtype_size(dtype);
  const auto load = [at](auto typed) {
    std::memcpy(&typed, at, sizeof typed);
    return typed;
  };
  switch (dtype) {
    case ANELLO_FLOAT32: return load(float());
    case ANELLO_FLOAT64: return load(double());
    case ANELLO_INT32: return load(std::int32_t());
    case ANELLO_INT64: return double(load(std::int64_t()));
    case ANELLO_UINT8: return load(std::uint8_t());
    case ANELLO_INT8: return load(std::int8_t());
    case ANELLO_INT16: return load(std::int16_t());
    case ANELLO_UINT16: return load(std::uint16_t());
    case ANELLO_UINT32: return load(std::uint32_t());
    case ANELLO_UINT64: return double(load(std::uint64_t()));
    case ANELLO_FLOAT16: return kFloat16.decode(load(std::uint16_t()));
    case ANELLO_BFLOAT16: return from_bfloat16(load(std::uint16_t()));
    case ANELLO_FLOAT8_E4M3: return kE4M3.decode(load(std::uint8_t()));
    case ANELLO_FLOAT8_E5M2: return kE5M2.decode(load(std::uint8_t()));
    case ANELLO_COMPLEX64: return load(std::complex<float>()).real();
    case ANELLO_COMPLEX128: return load(std::complex<double>()).real();
    default: return 0;
  }
}

inline bool floats(anello_dtype_t dtype) {
  switch (dtype) {
    case ANELLO_FLOAT32:
    case ANELLO_FLOAT64:
    case ANELLO_FLOAT16:
    case ANELLO_BFLOAT16:
    case ANELLO_FLOAT8_E4M3:
    case ANELLO_FLOAT8_E5M2:
    case ANELLO_COMPLEX64:
    case ANELLO_COMPLEX128: return true;
    default: return false;
  }
}

// What the reduction of number(r, i) over all ranks must give, before rounding to the type.
inline double reduced(anello_op_t op, anello_dtype_t dtype, int size, std::size_t i) {
  double value = op == ANELLO_PROD ? 1 : op == ANELLO_MIN ? 1e9 : 0;
  for (int rank = 0; rank < size; ++rank) {
    const double x = number(rank, i);
    switch (op) {
      case ANELLO_SUM:
      case ANELLO_AVG: value += x; break;
      case ANELLO_PROD: value *= x; break;
      case ANELLO_MIN: value = std::min(value, x); break;
      case ANELLO_MAX: value = std::max(value, x); break;
      default: break;  // not of kOps
    }
  }
  if (op == ANELLO_AVG) value = floats(dtype) ? value / size : double(int(value) / size);
  return dtype == ANELLO_INT8 ? double(std::int8_t(int(value))) : value;  // the only type here that these can wrap
}

// Complex numbers have no order.
inline bool defined(anello_dtype_t dtype, anello_op_t op) {
  return (dtype != ANELLO_COMPLEX64 && dtype != ANELLO_COMPLEX128) || (op != ANELLO_MIN && op != ANELLO_MAX);
}

inline bool close(double got, double expected, anello_dtype_t dtype) {
  const double tolerance = dtype == ANELLO_BFLOAT16      ? 1.0 / 256
                           : dtype == ANELLO_FLOAT16     ? 1.0 / 2048
                           : dtype == ANELLO_FLOAT8_E4M3 ? 1.0 / 16
                           : dtype == ANELLO_FLOAT8_E5M2 ? 1.0 / 8
                                                         : 1e-6;
  return std::abs(got - expected) <= tolerance * std::abs(expected);
}

inline constexpr anello_dtype_t kTypes[] = {
    ANELLO_FLOAT32,     ANELLO_FLOAT64,     ANELLO_INT32,     ANELLO_INT64,     ANELLO_UINT8,  ANELLO_FLOAT16,
    ANELLO_BFLOAT16,    ANELLO_INT8,        ANELLO_INT16,     ANELLO_UINT16,    ANELLO_UINT32, ANELLO_UINT64,
    ANELLO_FLOAT8_E4M3, ANELLO_FLOAT8_E5M2, ANELLO_COMPLEX64, ANELLO_COMPLEX128};
inline constexpr anello_op_t kOps[] = {ANELLO_SUM, ANELLO_PROD, ANELLO_MIN, ANELLO_MAX, ANELLO_AVG};

}  // namespace anello::test
