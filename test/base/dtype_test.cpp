#include "base/dtype.h"

#include <catch2/catch.hpp>

namespace anello {
namespace {

TEST_CASE("every data type has its size and name") {
  CHECK(dtype_bytes(ANELLO_FLOAT32) == 4);
  CHECK(dtype_bytes(ANELLO_FLOAT64) == 8);
  CHECK(dtype_bytes(ANELLO_INT32) == 4);
  CHECK(dtype_bytes(ANELLO_INT64) == 8);
  CHECK(dtype_bytes(ANELLO_UINT8) == 1);
  CHECK(dtype_bytes(ANELLO_FLOAT16) == 2);
  CHECK(dtype_bytes(ANELLO_BFLOAT16) == 2);
  CHECK(std::string(dtype_name(ANELLO_BFLOAT16)) == "bfloat16");
  CHECK(std::string(op_name(ANELLO_AVG)) == "avg");
}

TEST_CASE("what is no type and no operation is told apart from all that are") {
  for (int known = ANELLO_FLOAT32; known <= ANELLO_BFLOAT16; ++known) CHECK(is_dtype(known));
  for (int known = ANELLO_SUM; known <= ANELLO_AVG; ++known) CHECK(is_op(known));
  for (const int unknown : {-1, 7, 99, 1 << 20}) {
    CHECK_FALSE(is_dtype(unknown));
    CHECK(std::string(dtype_name(static_cast<anello_dtype_t>(unknown))) == "unknown");
  }
  for (const int unknown : {-1, 5, 99, 1 << 20}) {
    CHECK_FALSE(is_op(unknown));
    CHECK(std::string(op_name(static_cast<anello_op_t>(unknown))) == "unknown");
  }
}

}  // namespace
}  // namespace anello
