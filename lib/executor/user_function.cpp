#include "executor/user_function.h"

namespace anello::executor {
namespace {

// It lies at a fixed offset from the thread's pointer, because every call of the C API reads it.
[[gnu::tls_model("initial-exec")]] thread_local bool inside = false;

}  // namespace

bool inside_user_function() { return inside; }

bool call_user_function(const CustomOp& op, void* into, const void* left, const void* right, std::size_t count,
                        anello_dtype_t dtype) {
  struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
  } const here;
  try {
    op.function(op.context, into, left, right, count, dtype);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace anello::executor
