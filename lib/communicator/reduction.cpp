#include "communicator/reduction.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/kind.h"
#include "base/text.h"

namespace anello {

Reduction reduction_of(const anello_call_t& call) {
  Reduction made;
  const anello_dtype_t dtype = call.kind == ANELLO_BARRIER ? ANELLO_UINT8 : call.dtype;
  const anello_op_t op = kind_reduces(call.kind) ? call.op : ANELLO_SUM;
  made.element_bytes = dtype_bytes(dtype);
  made.op = op;
  if (is_custom_op(op)) {
    made.custom = find_custom_op(op);
    if (made.custom == nullptr) {
      throw Error(ANELLO_ERR_STATE, text("anello_", kind_name(call.kind), ": the operation was freed"));
    }
    made.op = made.custom->fingerprint();
  }
  if (made.own_function() || is_element(dtype)) {
    made.reducer = &kernels::reducer(ANELLO_BYTE, ANELLO_SUM);
  } else if (!made.premultiplies()) {
    made.reducer = &kernels::reducer(dtype, op);
  } else {
    made.reducer = &kernels::reducer(dtype, ANELLO_SUM);
    if (made.reducer->accumulates) {
      made.element_bytes = made.reducer->accumulator_bytes;
      made.reducer = &kernels::reducer(ANELLO_FLOAT32, ANELLO_SUM);
    }
  }
  return made;
}

}  // namespace anello
