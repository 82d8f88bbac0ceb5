#pragma once
// Operations that the caller makes: its own function, or a sum whose inputs each rank scales by its own factor. A call
// names an operation by its number; numbers are never reused.
//
// A function runs under the rank's lock. An operation that does not commute uses the schedules of ANELLO_INVARIANT,
// which reduce from rank 0 on. Elements may have any size; frames contain whole elements.
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
  anello_dtype_t scalar_dtype = ANELLO_FLOAT64;  // for a premultiplied sum
  std::array<std::byte, 16> scalar{};

  // The properties that must be equal on all ranks, as a number above all enumerators and numbers of custom operations.
  std::int32_t fingerprint() const;
};

inline constexpr int kFirstCustomOp = 0x10000;
constexpr bool is_custom_op(int op) { return op >= kFirstCustomOp; }

// Throws if there are no numbers left.
anello_op_t add_custom_op(CustomOp op);
// Null if no operation has this number (any more). A holder may use the operation after its removal.
std::shared_ptr<const CustomOp> find_custom_op(anello_op_t op);
// False if there was no such operation.
bool remove_custom_op(anello_op_t op);

// For people: the name of an enumerator, of a custom operation, or of the operation with this fingerprint.
std::string op_text(int op);

}  // namespace anello
