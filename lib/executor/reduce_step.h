#pragma once
// Reductions over several ranks' memory: each rank's slice, in rank order, to one place or to each of them.
#include "executor/operation.h"

#include <cstddef>

namespace anello::executor {

// Resolves `count` elements of a reduce_ranks or reduce_staged, from its element `first` on.
ResolvedStep resolve_reduce(Operation& operation, const schedule::Step& step, std::size_t first, std::size_t count);
// Runs a reduction that could not be resolved into addresses of all operands and results. Throws ReadFailure.
void reduce_in_blocks(Operation& operation, const ResolvedStep& resolved);

}  // namespace anello::executor
