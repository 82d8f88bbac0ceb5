#pragma once
// The tables of dtypes.def and ops.def: sizes, names, and which operation makes sense for which type.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace anello {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};
// Not C++'s bool, which may only hold 0 and 1.
struct Bool {
  std::uint8_t bits;
};
struct Byte {
  std::uint8_t bits;
};
struct Complex64 {
  float parts[2];
};
struct Complex128 {
  double parts[2];
};

enum DtypeClass : unsigned { kInteger = 1, kFloat = 2, kComplex = 4, kBool = 8, kPair = 16, kBytes = 32 };

constexpr unsigned class_of(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return type_class;
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}

constexpr unsigned classes_for(anello_op_t op) {
  switch (op) {
#define ANELLO_OP(enumerator, name, classes) \
  case enumerator:                           \
    return classes;
#include "base/ops.def"
#undef ANELLO_OP
  }
  return 0;
}

// Also false if either is unknown.
constexpr bool makes_sense(anello_dtype_t dtype, anello_op_t op) { return (class_of(dtype) & classes_for(op)) != 0; }
// For people: "integers and bool".
std::string what_op_takes(anello_op_t op);

// The caller's own elements: ANELLO_ELEMENT.
constexpr bool is_element(int dtype) {
  return dtype > ANELLO_ELEMENT(0) && dtype <= ANELLO_ELEMENT(ANELLO_ELEMENT_MAX);
}

// 0 if unknown.
constexpr std::size_t dtype_bytes(anello_dtype_t dtype) {
  if (is_element(dtype)) return static_cast<std::size_t>(dtype - ANELLO_ELEMENT(0));
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return sizeof(storage);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}
constexpr bool is_dtype(int dtype) { return dtype_bytes(static_cast<anello_dtype_t>(dtype)) != 0; }
bool is_op(int op);
const char* dtype_name(anello_dtype_t dtype);  // "unknown" if unknown
const char* op_name(anello_op_t op);
// Converts a type to the 16 bits that frames carry, and back.
inline constexpr int kShortElement = 0x8000;
constexpr std::uint16_t short_dtype(anello_dtype_t dtype) {
  return static_cast<std::uint16_t>(is_element(dtype) ? kShortElement | (dtype - ANELLO_ELEMENT(0)) : dtype);
}
constexpr anello_dtype_t long_dtype(std::uint16_t dtype) {
  const int bytes = dtype - kShortElement;
  return bytes > 0 ? ANELLO_ELEMENT(bytes) : static_cast<anello_dtype_t>(dtype);
}

}  // namespace anello
