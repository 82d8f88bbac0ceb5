#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/tree.h"

#include <algorithm>

namespace anello::schedule {

// Gather and scatter over the binomial tree: a subtree's parts travel together. Its ranks follow each other, but may
// wrap around from the last rank to rank 0. At the root these are two places, so there both sides cut the message.

namespace {

class Subtree {
 public:
  Subtree(const Call& call, int size, int rank) : call_(call), size_(size), at_(place(rank, call.root, size)) {}

  const Place& at() const { return at_; }
  bool is_root() const { return at_.parent < 0; }
  bool is_leaf() const { return at_.children.empty(); }

  // Calls each(elements from the subtree's first part on, place in the root's vector) for the pieces of a rank's
  // subtree.
  template <class Each>
  void pieces(int rank, Each&& each) const {
    const Place of = place(rank, call_.root, size_);
    const int before_wrap = std::min(of.ranks, size_ - rank);
    each(part(of.position - at_.position, before_wrap), part(rank, before_wrap));
    each(part(of.position - at_.position + before_wrap, of.ranks - before_wrap), part(0, of.ranks - before_wrap));
  }

 private:
  Part part(int first, int ranks) const {
    return {static_cast<std::size_t>(first) * call_.count, static_cast<std::size_t>(ranks) * call_.count};
  }

  const Call& call_;
  int size_;
  Place at_;
};

Slice scratch(Part part) { return {Buffer::scratch, part.offset, part.count}; }

}  // namespace

Schedule tree_gather(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("tree", call, topology, rank);
  const Subtree tree(call, topology.size, rank);
  for (const int child : tree.at().children)
    tree.pieces(child,
                [&](Part here, Part in_root) { steps.recv(child, tree.is_root() ? output(in_root) : scratch(here)); });
  const Part own{0, call.count};
  if (tree.is_root()) {
    steps.copy(output({static_cast<std::size_t>(rank) * call.count, call.count}), input(own));
  } else if (tree.is_leaf()) {
    steps.send(tree.at().parent, input(own));
  } else {
    steps.copy(scratch(own), input(own));
    tree.pieces(rank, [&](Part here, Part) { steps.send(tree.at().parent, scratch(here)); });
  }
  return std::move(steps).build();
}

Schedule tree_scatter(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("tree", call, topology, rank);
  const Subtree tree(call, topology.size, rank);
  const Part own{0, call.count};
  if (tree.is_leaf()) {
    steps.recv(tree.at().parent, output(own));
    return std::move(steps).build();
  }
  if (!tree.is_root()) tree.pieces(rank, [&](Part here, Part) { steps.recv(tree.at().parent, scratch(here)); });
  // The largest subtree comes first: it has the longest path.
  for (auto child = tree.at().children.rbegin(); child != tree.at().children.rend(); ++child)
    tree.pieces(*child,
                [&](Part here, Part in_root) { steps.send(*child, tree.is_root() ? input(in_root) : scratch(here)); });
  if (!tree.is_root())
    steps.copy(output(own), scratch(own));
  else if (!call.in_place)
    steps.copy(output(own), input({static_cast<std::size_t>(rank) * call.count, call.count}));
  return std::move(steps).build();
}

}  // namespace anello::schedule
