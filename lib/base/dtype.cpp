#include "base/dtype.h"

#include "base/custom_op.h"

namespace anello {
namespace {

struct ClassName {
  DtypeClass type_class;
  const char* name;
};
constexpr ClassName kClassNames[] = {{kInteger, "integers"},
                                     {kFloat, "floats"},
                                     {kComplex, "complex numbers"},
                                     {kBool, "bool"},
                                     {kPair, "pairs of a value and an int32"},
                                     {kBytes, "bytes"}};

}  // namespace

std::string what_op_takes(anello_op_t op) {
  std::string list;
  unsigned left = classes_for(op);
  for (const ClassName& row : kClassNames) {
    if ((left & row.type_class) == 0) continue;
    left &= ~row.type_class;
    if (!list.empty()) list += left == 0 ? " and " : ", ";
    list += row.name;
  }
  return list;
}

bool is_op(int op) {
  switch (op) {
#define ANELLO_OP(enumerator, name, classes) \
  case enumerator:                           \
    return true;
#include "base/ops.def"
#undef ANELLO_OP
    default: return false;
  }
}

const char* dtype_name(anello_dtype_t dtype) {
  if (is_element(dtype)) return "element";
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  case enumerator:                                                       \
    return #name;
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return "unknown";
}

const char* op_name(anello_op_t op) {
  if (find_custom_op(op) != nullptr) return "custom";
  switch (op) {
#define ANELLO_OP(enumerator, name, classes) \
  case enumerator:                           \
    return #name;
#include "base/ops.def"
#undef ANELLO_OP
  }
  return "unknown";
}

}  // namespace anello
