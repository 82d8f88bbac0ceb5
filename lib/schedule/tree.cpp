#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/tree.h"

#include <algorithm>
#include <utility>

namespace anello::schedule {
namespace {

void pass_down(Builder& steps, const Place& at, Slice slice) {
  if (at.parent >= 0) steps.recv(at.parent, slice);
  // The largest subtree comes first: it has the longest path.
  for (auto child = at.children.rbegin(); child != at.children.rend(); ++child) steps.send(*child, slice);
}

// Adds the own vector and all children's sums, in into if there are children, and sends the sum to the parent. Returns
// the place of the sum.
Slice pull_up(Builder& steps, const Place& at, Slice into, Slice own) {
  Slice sum = own;
  for (const int child : at.children) {
    steps.recv_reduce(child, into, sum);
    sum = into;
  }
  if (at.parent >= 0) steps.send(at.parent, sum);
  return sum;
}

// The number of chunks of a reduction that may be in flight at a rank other than the root.
constexpr std::size_t kSlots = 4;

// From the root around the ring of ranks; each rank is followed by those that share its processors.
std::vector<int> order_by_processors(int root, const Topology& topology) {
  const int size = topology.size;
  const auto processors = [&](int position) {
    return static_cast<std::size_t>(topology.processors_of[static_cast<std::size_t>(wrap(root + position, size))]);
  };
  std::vector<std::vector<int>> on(static_cast<std::size_t>(size));
  for (int position = 0; position < size; ++position) on[processors(position)].push_back(wrap(root + position, size));
  std::vector<int> order;
  for (int position = 0; position < size; ++position) {
    const std::vector<int> together = std::exchange(on[processors(position)], {});
    order.insert(order.end(), together.begin(), together.end());
  }
  return order;
}

}  // namespace

Place place_by_processors(int rank, int root, const Topology& topology) {
  if (topology.processors_of.empty()) return place(rank, root, topology.size);
  const std::vector<int> order = order_by_processors(root, topology);
  const auto position = static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
  return place_at(position, topology.size, [&](int at) { return order[static_cast<std::size_t>(at)]; });
}

Schedule tree_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("tree", call, topology, rank);
  const Place at = place_by_processors(rank, call.root, topology);
  // Without data, a token is sent: even then no rank returns before the root has called.
  if (call.count == 0) pass_down(steps, at, Slice{Buffer::scratch, 0, 1});
  const Split split(call.count, 1, chunk);
  for (std::size_t c = 0; c < split.chunks(); ++c) pass_down(steps, at, output(split.chunk(0, c)));
  return std::move(steps).build();
}

Schedule tree_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("tree", call, topology, rank);
  const Place at = place_by_processors(rank, 0, topology);
  const Split split(call.count, 1, chunk);
  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    const Slice sum = pull_up(steps, at, output(part), input(part));
    if (at.parent < 0 && call.finish) steps.finish(output(part), sum);
    pass_down(steps, at, output(part));
  }
  return std::move(steps).build();
}

Schedule tree_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  Builder steps("tree", call, topology, rank);
  const Place at = place_by_processors(rank, call.root, topology);
  const Split split(call.count, 1, chunk);
  for (std::size_t c = 0; c < split.chunks(); ++c) {
    const Part part = split.chunk(0, c);
    const bool root = rank == call.root;
    const Slice into = root ? output(part) : Slice{Buffer::scratch, c % kSlots * split.longest(), part.count};
    const Slice sum = pull_up(steps, at, into, input(part));
    if (root && call.finish) steps.finish(output(part), sum);
  }
  return std::move(steps).build();
}

}  // namespace anello::schedule
