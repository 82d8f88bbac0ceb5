#pragma once
// How a call combines operands: by one of Anello's kernels, by a function of the caller's own, or as a sum of scaled
// inputs.
#include "base/custom_op.h"
#include "kernels/reduce.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello {

struct Reduction {
  std::shared_ptr<const CustomOp> custom;     // null: one of Anello's
  const kernels::Reducer* reducer = nullptr;  // of what is combined; where the caller's function does that, of bytes
  std::size_t element_bytes = 0;              // of what moves
  std::int32_t op = 0;                        // what ranks must agree upon

  bool own_function() const { return custom != nullptr && custom->function != nullptr; }
  bool premultiplies() const { return custom != nullptr && custom->function == nullptr; }
  // Only from rank 0 on, one after the other.
  bool in_order() const { return own_function() && !custom->commutes; }
};

// Of a checked call, also of one that only moves. Throws Error where its operation was freed meanwhile.
Reduction reduction_of(const anello_call_t& call);

}  // namespace anello
