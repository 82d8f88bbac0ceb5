#pragma once
// Operations made by the caller: a function of his own, or a sum whose inputs each rank scales by a factor of its own.
// A call names one by its number; numbers are never used again.
//
// A function runs under the rank's lock. One that does not commute gets the schedules of ANELLO_INVARIANT, which fold
// from rank 0 on. Elements may have any size; frames end at whole ones.
#include <anello/anello.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace anello {

struct CustomOp {
  std::string name;
  anello_op_function_t function = nullptr;  // null: a premultiplied sum
  void* context = nullptr;
  bool commutes = true;
  std::size_t element_bytes = 0;                 // 0: any
  anello_dtype_t scalar_dtype = ANELLO_FLOAT64;  // of a premultiplied sum
  std::array<std::byte, 16> scalar{};

  // What ranks must have in common, as a number beyond all of enumerators and of custom operations.
  std::int32_t fingerprint() const;
};

inline constexpr int kFirstCustomOp = 0x10000;
constexpr bool is_custom_op(int op) { return op >= kFirstCustomOp; }

// Throws when numbers have run out.
anello_op_t add_custom_op(CustomOp op);
// Null when there is none of this number (any more). Who holds it may use it after its removal.
std::shared_ptr<const CustomOp> find_custom_op(anello_op_t op);
// False when there was none.
bool remove_custom_op(anello_op_t op);

// For people: the name of an enumerator, of a custom operation, or of one with this fingerprint.
std::string op_text(int op);

}  // namespace anello
