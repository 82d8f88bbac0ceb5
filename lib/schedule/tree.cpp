#include "schedule/algorithms.h"
#include "schedule/builder.h"

#include <vector>

namespace anello::schedule {
namespace {

// A rank's place in the binomial tree under root. Child k's subtree has up to 2^k ranks, the ones that follow child k.
struct Place {
  int parent = -1;
  std::vector<int> children;
};

Place place(int rank, int root, int size) {
  Place result;
  const int position = wrap(rank - root, size);
  for (int bit = 1; bit < size; bit *= 2) {
    if ((position & bit) != 0) {
      result.parent = wrap(rank - bit, size);
      break;
    }
    if (position + bit < size) result.children.push_back(wrap(rank + bit, size));
  }
  return result;
}

void pass_down(Builder& steps, const Place& at, Slice slice) {
  if (at.parent >= 0) steps.recv(at.parent, slice);
  // The largest subtree first: it has the longest way to go.
  for (auto child = at.children.rbegin(); child != at.children.rend(); ++child) steps.send(*child, slice);
}

}  // namespace

Schedule tree_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("tree", call, topology, rank);
  const Place at = place(rank, call.root, topology.size);
  // Without data a token travels: also then nobody returns before the root has called.
  if (call.count == 0) pass_down(steps, at, Slice{Buffer::scratch, 0, 1});
  const Split split(call.count, 1, chunk);
  for (std::size_t c = 0; c < split.chunks(); ++c) pass_down(steps, at, output(split.chunk(0, c)));
  return std::move(steps).build();
}

Schedule tree_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("tree", call, topology, rank);
  const Place at = place(rank, 0, topology.size);
  const Split split(call.count, 1, chunk);
  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    Slice sum = input(part);
    for (const int child : at.children) {
      steps.recv_reduce(child, output(part), sum);
      sum = output(part);
    }
    if (at.parent >= 0)
      steps.send(at.parent, sum);
    else if (call.finish)
      steps.finish(output(part), sum);
    pass_down(steps, at, output(part));
  }
  return std::move(steps).build();
}

}  // namespace anello::schedule
