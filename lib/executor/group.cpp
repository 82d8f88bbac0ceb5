#include "executor/group.h"

#include "executor/routes.h"

namespace anello::executor {

Group::Group(Parts& parts_, std::uint64_t id_, std::vector<int> ranks_, int rank_, Board board_,
             std::uint32_t first_sequence)
    : parts(parts_),
      id(id_),
      ranks(std::move(ranks_)),
      rank(rank_),
      flows(*this),
      board(std::move(board_)),
      next_sequence(first_sequence) {
  for (std::uint32_t kind = 0; kind < reading.size(); ++kind) reading[kind].stagger(kind);
}

Flows::Flows(Group& group) : group_(group), by_rank_(group.ranks.size()) {}

Flows::~Flows() {
  while (Flow* flow = made_.pop()) delete flow;
}

Flow& Flows::make(int peer) {
  auto made = std::make_unique<Flow>();
  made->group = &group_;
  made->peer = peer;
  group_.parts.routes.set_up(*made);
  by_rank_[std::size_t(peer)] = made.get();
  made_.push(made.get());
  return *made.release();
}

int Group::rank_of_world(int world) const {
  // Most communicators have the whole job in order.
  if (world >= 0 && world < size() && ranks[std::size_t(world)] == world) return world;
  for (int peer = 0; peer < size(); ++peer) {
    if (ranks[std::size_t(peer)] == world) return peer;
  }
  return -1;
}

Operation* Group::find(std::uint32_t sequence) const {
  for (Operation* at = window.front(); at != nullptr; at = OperationFifo::after(at)) {
    if (at->sequence == sequence) return at;
  }
  return nullptr;
}

}  // namespace anello::executor
