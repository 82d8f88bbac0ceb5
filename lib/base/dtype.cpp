#include "base/dtype.h"

namespace anello {

bool is_dtype(int dtype) { return dtype_bytes(static_cast<anello_dtype_t>(dtype)) != 0; }

bool is_op(int op) {
  switch (op) {
#define ANELLO_OP(enumerator, name) \
  case enumerator:                  \
    return true;
#include "base/ops.def"
#undef ANELLO_OP
    default:
      return false;
  }
}

std::size_t dtype_bytes(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator) \
  case enumerator:                                           \
    return sizeof(storage);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return 0;
}

const char* dtype_name(anello_dtype_t dtype) {
  switch (dtype) {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator) \
  case enumerator:                                           \
    return #name;
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  }
  return "unknown";
}

const char* op_name(anello_op_t op) {
  switch (op) {
#define ANELLO_OP(enumerator, name) \
  case enumerator:                  \
    return #name;
#include "base/ops.def"
#undef ANELLO_OP
  }
  return "unknown";
}

}  // namespace anello
