#include "executor/group.h"

#include "control/job.h"
#include "executor/routes.h"

#include <cstring>

namespace anello::executor {
namespace {

recorder::Identity identity_of(const control::Job& job, std::uint64_t id, int rank, int size) {
  const std::vector<control::Member>& members = job.members();
  const control::Member& self = members[std::size_t(job.rank())];
  recorder::Identity who;
  for (const control::Member& member : members) {
    for (const std::uint64_t number : {member.process, member.machine})
      who.job = (who.job ^ number) * 0x9e3779b97f4a7c15ull;
  }
  who.communicator = id;
  who.pid = self.pid;
  who.rank = rank;
  who.size = size;
  who.world_rank = job.rank();
  who.world_size = job.size();
  std::strncpy(who.host, self.host.c_str(), sizeof who.host - 1);
  return who;
}

}  // namespace

Group::Group(Parts& parts_, std::uint64_t id_, std::vector<int> ranks_, int rank_, Board board_,
             std::uint32_t first_sequence)
    : parts(parts_),
      id(id_),
      ranks(std::move(ranks_)),
      rank(rank_),
      flows(*this),
      board(std::move(board_)),
      record(identity_of(parts_.job, id_, rank_, size())),
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
