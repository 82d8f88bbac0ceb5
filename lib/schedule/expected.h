#pragma once
// The required results of a call, element by element: for the simulator, and for the steps that form a result at once.
#include "schedule/calls.h"
#include "schedule/symbol.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anello::schedule {

// The operands of a result: one element of the input of each of these ranks.
struct Sources {
  int first;
  int last;
  std::size_t element;
};

// The operands of element i of rank's result.
// Requires: it is in a part.
Sources sources_of(const Calls& calls, int rank, std::size_t i);

// Each rank's output, by rank.
using Outputs = std::function<const std::vector<Symbol>&(int rank)>;

// "" if all ranks' outputs are correct, else a description of the first that is not. digest gets the digest of all
// results.
std::string why_wrong(const Calls& calls, const Outputs& outputs, std::uint64_t& digest);

}  // namespace anello::schedule
