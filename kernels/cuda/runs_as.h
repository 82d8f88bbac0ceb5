#pragma once
// Which kernels exist, and which of them serves a data type and operation. Several pairs of type and operation need the
// same arithmetic and share a kernel: signed sums wrap as unsigned sums do, bit operations ignore the type, bools are
// logical bytes, and complex numbers are added part by part.
#include "base/dtype.h"

namespace anello::kernels::cuda {

enum class Form {
  elements,  // all operands are elements
  wide,      // the first source or the destinations hold sums, in a wider type
  copy,      // any type, without an operation
};

struct RunsAs {
  anello_dtype_t dtype;
  anello_op_t op;
  std::size_t parts;  // the number of elements of that type in one element of the caller's type
};

constexpr std::size_t element_bytes(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return sizeof(storage);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}

constexpr std::size_t accumulator_bytes(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return sizeof(accumulator);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}

// The alignment that pointers to it must have: a device cannot load across it.
constexpr std::size_t alignment(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return alignof(storage);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}

constexpr anello_dtype_t unsigned_of(anello_dtype_t dtype) {
  switch (dtype) {
    case ANELLO_INT8: return ANELLO_UINT8;
    case ANELLO_INT16: return ANELLO_UINT16;
    case ANELLO_INT32: return ANELLO_UINT32;
    case ANELLO_INT64: return ANELLO_UINT64;
    default: return dtype;
  }
}

// Requires: makes_sense(dtype, op).
constexpr RunsAs runs_as(anello_dtype_t dtype, anello_op_t op) {
  switch (class_of(dtype)) {
    case kBool:
      if (op == ANELLO_SUM || op == ANELLO_MAX || op == ANELLO_BOR) return {ANELLO_UINT8, ANELLO_LOR, 1};
      if (op == ANELLO_PROD || op == ANELLO_MIN || op == ANELLO_BAND) return {ANELLO_UINT8, ANELLO_LAND, 1};
      if (op == ANELLO_BXOR) return {ANELLO_UINT8, ANELLO_LXOR, 1};
      return {ANELLO_UINT8, op, 1};
    case kComplex:
      if (op == ANELLO_PROD) break;
      return {dtype == ANELLO_COMPLEX64 ? ANELLO_FLOAT32 : ANELLO_FLOAT64, op, 2};
    case kInteger:
      if (op == ANELLO_BAND || op == ANELLO_BOR || op == ANELLO_BXOR) return {ANELLO_UINT8, op, element_bytes(dtype)};
      if (op == ANELLO_MIN || op == ANELLO_MAX || op == ANELLO_AVG) break;  // these depend on the sign
      return {unsigned_of(dtype), op, 1};
    default: break;
  }
  return {dtype, op, 1};
}

// Whether this pair has its own kernel.
constexpr bool is_kernel(anello_dtype_t dtype, anello_op_t op) {
  if (!makes_sense(dtype, op)) return false;
  const RunsAs as = runs_as(dtype, op);
  return as.dtype == dtype && as.op == op;
}

// Whether its sums are wider than the type. Then there is also a wide kernel, for sums as operands.
constexpr bool has_wide(anello_dtype_t dtype, anello_op_t op) {
  return accumulator_bytes(dtype) != element_bytes(dtype) &&
         (op == ANELLO_SUM || op == ANELLO_PROD || op == ANELLO_AVG);
}

// The pairs of types between which there are moves.
struct MovePair {
  anello_dtype_t from, to;
};
inline constexpr MovePair kMoves[] = {
    {ANELLO_FLOAT32, ANELLO_FLOAT32},   {ANELLO_FLOAT64, ANELLO_FLOAT64},  {ANELLO_FLOAT16, ANELLO_FLOAT16},
    {ANELLO_BFLOAT16, ANELLO_BFLOAT16}, {ANELLO_FLOAT32, ANELLO_FLOAT16},  {ANELLO_FLOAT32, ANELLO_BFLOAT16},
    {ANELLO_FLOAT16, ANELLO_FLOAT32},   {ANELLO_BFLOAT16, ANELLO_FLOAT32},
};

// Kernels are compiled in parts, in parallel, and loaded by part.
inline constexpr int kImages = 5;
constexpr int image_of(anello_dtype_t dtype) {
  const std::size_t bytes = element_bytes(dtype);
  if (class_of(dtype) == kInteger) return bytes <= 2 ? 0 : 1;
  return class_of(dtype) == kFloat && bytes <= 2 ? 1 + static_cast<int>(3 - bytes) : 4;
}

// The bytes of one load. A kernel is built for the type's alignment and for wider loads. If the alignment is 1 it is
// not built for 2, because single bytes are nearly as fast.
inline constexpr int kGranules[] = {16, 8, 4, 2, 1};
constexpr bool has_granule(std::size_t alignment_bytes, int granule) {
  const int least = static_cast<int>(alignment_bytes);
  return granule >= least && (granule != 2 || least == 2);
}

}  // namespace anello::kernels::cuda
