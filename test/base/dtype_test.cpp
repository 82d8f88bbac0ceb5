#include "base/dtype.h"
#include "support/catch.h"

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
  CHECK(dtype_bytes(ANELLO_UINT64) == 8);
  CHECK(dtype_bytes(ANELLO_FLOAT8_E4M3) == 1);
  CHECK(dtype_bytes(ANELLO_BOOL) == 1);
  CHECK(dtype_bytes(ANELLO_COMPLEX64) == 8);
  CHECK(dtype_bytes(ANELLO_COMPLEX128) == 16);
  CHECK(dtype_bytes(ANELLO_BYTE) == 1);
  CHECK(dtype_bytes(ANELLO_INT32_INT) == 8);
  CHECK(dtype_bytes(ANELLO_INT64_INT) == 16);
  CHECK(std::string(dtype_name(ANELLO_BFLOAT16)) == "bfloat16");
  CHECK(std::string(dtype_name(ANELLO_FLOAT8_E5M2)) == "float8_e5m2");
  CHECK(std::string(op_name(ANELLO_MAXLOC)) == "maxloc");
  CHECK(std::string(op_name(ANELLO_AVG)) == "avg");
}

TEST_CASE("what is no type and no operation is told apart from all that are") {
  for (int known = ANELLO_FLOAT32; known <= ANELLO_INT64_INT; ++known) CHECK(is_dtype(known));
  for (int known = ANELLO_SUM; known <= ANELLO_MAXLOC; ++known) CHECK(is_op(known));
  for (const int unknown : {-1, 22, 99, 1 << 20}) {
    CHECK_FALSE(is_dtype(unknown));
    CHECK(std::string(dtype_name(static_cast<anello_dtype_t>(unknown))) == "unknown");
  }
  for (const int unknown : {-1, 13, 99, 1 << 20}) {
    CHECK_FALSE(is_op(unknown));
    CHECK(std::string(op_name(static_cast<anello_op_t>(unknown))) == "unknown");
  }
}

TEST_CASE("operations make sense where they mean something, and nowhere else") {
  // The rows: sum prod min max avg band bor bxor land lor lxor minloc maxloc.
  struct Row {
    anello_dtype_t dtype;
    const char* ops;
  };
  constexpr Row kRows[] = {
      {ANELLO_INT32, "11111111111.."},       {ANELLO_UINT64, "11111111111.."},      {ANELLO_FLOAT32, "11111........"},
      {ANELLO_BFLOAT16, "11111........"},    {ANELLO_FLOAT8_E4M3, "11111........"}, {ANELLO_BOOL, "1111.111111.."},
      {ANELLO_COMPLEX64, "11..1........"},   {ANELLO_COMPLEX128, "11..1........"},  {ANELLO_BYTE, "............."},
      {ANELLO_FLOAT64_INT, "...........11"}, {ANELLO_INT32_INT, "...........11"}};
  for (const Row& row : kRows) {
    for (int op = ANELLO_SUM; op <= ANELLO_MAXLOC; ++op) {
      INFO(dtype_name(row.dtype) << " " << op_name(static_cast<anello_op_t>(op)));
      CHECK(makes_sense(row.dtype, static_cast<anello_op_t>(op)) == (row.ops[op] == '1'));
    }
  }
  CHECK_FALSE(makes_sense(static_cast<anello_dtype_t>(99), ANELLO_SUM));
  CHECK_FALSE(makes_sense(ANELLO_FLOAT32, static_cast<anello_op_t>(99)));
  CHECK(what_op_takes(ANELLO_BOR) == "integers and bool");
  CHECK(what_op_takes(ANELLO_SUM) == "integers, floats, complex numbers and bool");
  CHECK(what_op_takes(ANELLO_MINLOC) == "pairs of a value and an int32");
}

}  // namespace
}  // namespace anello
