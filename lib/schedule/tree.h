#pragma once
// The binomial tree under a root. Positions count from the root around the ring of ranks.
#include "schedule/split.h"

#include <vector>

namespace anello::schedule {

// A rank's place. Child k's subtree has up to 2^k ranks, the ones that follow child k.
struct Place {
  int parent = -1;
  std::vector<int> children;
  int position = 0;
  int ranks = 1;  // of its subtree: those at position, position + 1, ..
};

inline Place place(int rank, int root, int size) {
  Place result;
  result.position = wrap(rank - root, size);
  for (int bit = 1; bit < size; bit *= 2) {
    if ((result.position & bit) != 0) {
      result.parent = wrap(rank - bit, size);
      break;
    }
    if (result.position + bit < size) result.children.push_back(wrap(rank + bit, size));
    result.ranks = result.position + 2 * bit < size ? 2 * bit : size - result.position;
  }
  return result;
}

}  // namespace anello::schedule
