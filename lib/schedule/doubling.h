#pragma once
// Sums whole vectors between members 1, 2, 4, .. apart: fewest hops.
#include "schedule/builder.h"

#include <vector>

namespace anello::schedule {

// members are ranks, ascending, and include this one. The contents of `value` (input or output) become the finished sum
// over all members, in output. The partners of a round put the lower one's operand on the left, so both get the same
// bits, and the operands of a sum are always neighbours among the members.
void double_up(Builder& steps, const Call& call, const Split& split, const std::vector<int>& members, int rank,
               Buffer value);

}  // namespace anello::schedule
