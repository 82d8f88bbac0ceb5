#pragma once
// Sums of whole vectors between members 1, 2, 4, .. apart: fewest hops.
#include "schedule/builder.h"

#include <vector>

namespace anello::schedule {

// Of some ranks, ascending, among which this one is: what `value` (input, or output) holds becomes the sum of all
// members' in output, finished. The partners of a round put the lower one's operand on the left, so both get the same
// bits, and the operands of a sum are always neighbours among the members.
void double_up(Builder& steps, const Call& call, const Split& split, const std::vector<int>& members, int rank,
               Buffer value);

}  // namespace anello::schedule
