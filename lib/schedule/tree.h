#pragma once
// The binomial tree under a root. Positions count from the root around the ring of ranks, or follow a given order.
#include "schedule/schedule.h"
#include "schedule/split.h"

#include <vector>

namespace anello::schedule {

// A rank's place. Child k's subtree has up to 2^k ranks, which follow child k.
struct Place {
  int parent = -1;
  std::vector<int> children;
  int position = 0;
  int ranks = 1;  // the ranks of its subtree: those at position, position + 1, ..
};

// at(position): the rank there.
template <class At>
Place place_at(int position, int size, At&& at) {
  Place result;
  result.position = position;
  for (int bit = 1; bit < size; bit *= 2) {
    if ((position & bit) != 0) {
      result.parent = at(position - bit);
      break;
    }
    if (position + bit < size) result.children.push_back(at(position + bit));
    result.ranks = position + 2 * bit < size ? 2 * bit : size - position;
  }
  return result;
}

inline Place place(int rank, int root, int size) {
  return place_at(wrap(rank - root, size), size, [&](int position) { return wrap(root + position, size); });
}

// A tree in which ranks that share processors follow each other: data for a processor's ranks comes to one of them,
// which forwards it, and the inner ranks of a level are on different processors.
Place place_by_processors(int rank, int root, const Topology& topology);

}  // namespace anello::schedule
