#pragma once
// What a call's results must be, element by element: for the simulator, and for the steps that form a result at once.
#include "schedule/calls.h"
#include "schedule/symbol.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anello::schedule {

// What a result is made of: an element of the input of each of these ranks.
struct Sources {
  int first;
  int last;
  std::size_t element;
};

// Of element i of rank's result.
// Requires: it is in a part.
Sources sources_of(const Calls& calls, int rank, std::size_t i);

// By rank: its output.
using Outputs = std::function<const std::vector<Symbol>&(int rank)>;

// "" where all ranks' outputs are what they must be, else the first that is not. digest: all results' goes into it.
std::string why_wrong(const Calls& calls, const Outputs& outputs, std::uint64_t& digest);

}  // namespace anello::schedule
