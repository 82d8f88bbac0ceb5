#pragma once
// Values of every type for the tests of collectives, and the sequential model of a reduction of them.
#include <anello/anello.h>

#include <algorithm>
#include <cmath>
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
inline float from_float16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float mantissa = float(bits & 1023) / 1024.0f;
  const float magnitude = exponent == 0 ? mantissa / 16384.0f : (1.0f + mantissa) * float(1u << exponent) / 32768.0f;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
inline std::uint16_t to_float16(int value) {
  if (value == 0) return 0;
  int exponent = 0;
  while ((value >> exponent) > 1) ++exponent;
  return std::uint16_t((exponent + 15) << 10 | ((value << (10 - exponent)) & 1023));
}

inline void put(std::vector<unsigned char>& into, anello_dtype_t dtype, std::size_t i, int value) {
  unsigned char* at = into.data() + i * anello_dtype_size(dtype);
  const auto store = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case ANELLO_FLOAT32: return store(float(value));
    case ANELLO_FLOAT64: return store(double(value));
    case ANELLO_INT32: return store(std::int32_t(value));
    case ANELLO_INT64: return store(std::int64_t(value));
    case ANELLO_UINT8: return store(std::uint8_t(value));
    case ANELLO_FLOAT16: return store(to_float16(value));
    case ANELLO_BFLOAT16: return store(to_bfloat16(float(value)));
  }
}

inline double get(const std::vector<unsigned char>& from, anello_dtype_t dtype, std::size_t i) {
  const unsigned char* at = from.data() + i * anello_dtype_size(dtype);
  const auto load = [at](auto typed) { std::memcpy(&typed, at, sizeof typed); return typed; };
  switch (dtype) {
    case ANELLO_FLOAT32: return load(float());
    case ANELLO_FLOAT64: return load(double());
    case ANELLO_INT32: return load(std::int32_t());
    case ANELLO_INT64: return double(load(std::int64_t()));
    case ANELLO_UINT8: return load(std::uint8_t());
    case ANELLO_FLOAT16: return from_float16(load(std::uint16_t()));
    case ANELLO_BFLOAT16: return from_bfloat16(load(std::uint16_t()));
  }
  return 0;
}

inline bool floats(anello_dtype_t dtype) {
  return dtype == ANELLO_FLOAT32 || dtype == ANELLO_FLOAT64 || dtype == ANELLO_FLOAT16 || dtype == ANELLO_BFLOAT16;
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
    }
  }
  if (op == ANELLO_AVG) value = floats(dtype) ? value / size : double(int(value) / size);
  return value;
}

inline bool close(double got, double expected, anello_dtype_t dtype) {
  const double tolerance = dtype == ANELLO_BFLOAT16 ? 1.0 / 256 : dtype == ANELLO_FLOAT16 ? 1.0 / 2048 : 1e-6;
  return std::abs(got - expected) <= tolerance * std::abs(expected);
}

inline constexpr anello_dtype_t kTypes[] = {ANELLO_FLOAT32, ANELLO_FLOAT64, ANELLO_INT32,   ANELLO_INT64,
                                     ANELLO_UINT8,   ANELLO_FLOAT16, ANELLO_BFLOAT16};
inline constexpr anello_op_t kOps[] = {ANELLO_SUM, ANELLO_PROD, ANELLO_MIN, ANELLO_MAX, ANELLO_AVG};

}  // namespace anello::test
