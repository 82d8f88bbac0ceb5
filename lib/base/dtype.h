#pragma once
// The tables of dtypes.def and ops.def: sizes and names.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>

namespace anello {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

bool is_dtype(int dtype);
bool is_op(int op);
std::size_t dtype_bytes(anello_dtype_t dtype);  // 0 when unknown
const char* dtype_name(anello_dtype_t dtype);   // "unknown" when unknown
const char* op_name(anello_op_t op);

}  // namespace anello
