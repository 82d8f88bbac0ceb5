#pragma once
// How a call combines operands: by one of Anello's kernels, by the caller's own function, or as a sum of scaled inputs.
#include "base/custom_op.h"
#include "kernels/reduce.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello {

struct Reduction {
  std::shared_ptr<const CustomOp> custom;     // null: one of Anello's operations
  const kernels::Reducer* reducer = nullptr;  // for the combined type; for bytes if the caller's function combines
  std::size_t element_bytes = 0;              // of the sent type
  std::int32_t op = 0;                        // must be equal on all ranks

  bool own_function() const { return custom != nullptr && custom->function != nullptr; }
  bool premultiplies() const { return custom != nullptr && custom->function == nullptr; }
  // Operands combine only from rank 0 on, one after the other.
  bool in_order() const { return own_function() && !custom->commutes; }
};

// For a checked call, also for one that only moves data. Throws Error if its operation was freed meanwhile.
Reduction reduction_of(const anello_call_t& call);

}  // namespace anello
