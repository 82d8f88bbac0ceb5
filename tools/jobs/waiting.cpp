#include "jobs/waiting.h"

#include <algorithm>

namespace jobs {

using anello::recorder::Waits;

int Members::world_rank(int rank) const {
  const auto found = by_rank.find(rank);
  if (found != by_rank.end()) return found->second->who.world_rank;
  // A communicator of all ranks has them in order, unless it was made by a split with other keys.
  const bool is_whole = !by_rank.empty() && size == by_rank.begin()->second->who.world_size;
  const bool in_order = std::all_of(by_rank.begin(), by_rank.end(),
                                    [](const auto& each) { return each.first == each.second->who.world_rank; });
  return is_whole && in_order && rank >= 0 && rank < size ? rank : -1;
}

bool has_not_come(const Snapshot& shown, std::uint32_t sequence) {
  return shown.collectives.empty() || before(shown.collectives.back().call.sequence, sequence);
}

Waiting::Waiting(const std::vector<const Snapshot*>& of_one_job) {
  for (const Snapshot* const each : of_one_job) {
    shown_.insert(each->who.world_rank);
    Members& members = communicators_[each->who.communicator];
    members.size = each->who.size;
    const Snapshot*& of_rank = members.by_rank[each->who.rank];
    if (of_rank == nullptr || of_rank->taken_ms < each->taken_ms) of_rank = each;
  }
  for (const auto& [communicator, members] : communicators_) {
    for (const auto& [rank, shown] : members.by_rank) {
      add_collective(communicator, members, *shown);
      add_messages(communicator, members, *shown);
    }
  }
}

void Waiting::add_collective(std::uint64_t communicator, const Members& members, const Snapshot& shown) {
  const Snapshot::Collective* const in = shown.in_flight();
  if (in == nullptr) return;
  const std::uint32_t sequence = in->call.sequence;
  Edge edge{shown.who.world_rank, -1, communicator, sequence, &shown};
  bool any_absent = false;
  for (const auto& [rank, other] : members.by_rank) {
    if (!has_not_come(*other, sequence)) continue;
    any_absent = true;
    edge.to = other->who.world_rank;
    edge.why = Edge::Why::never_entered;
    edges_.push_back(edge);
  }
  if (!shown.waits || shown.waits->sequence != sequence) return;
  for (int i = 0; i < shown.waits->peers; ++i) {
    const Waits::Peer& peer = shown.waits->peer[i];
    edge.to = peer.world_rank;
    edge.life = peer.life;
    edge.why = peer.what == Waits::What::room ? Edge::Why::room : Edge::Why::data;
    if (peer.what == Waits::What::call && !shows(peer.world_rank)) edge.why = Edge::Why::never_entered;
    // Those that have come wait themselves for the one that has not.
    if (!any_absent || !shows(peer.world_rank)) edges_.push_back(edge);
    for (Edge& earlier : edges_)
      if (earlier.to == edge.to && edge.life != Waits::Life::runs) earlier.life = edge.life;
  }
}

void Waiting::add_messages(std::uint64_t communicator, const Members& members, const Snapshot& shown) {
  for (const auto* const list : {&shown.received, &shown.sent}) {
    for (const Snapshot::Message& each : *list) {
      const int to = members.world_rank(each.message.peer);
      if (each.ended || to < 0) continue;
      Edge edge{shown.who.world_rank, to, communicator, 0, &shown};
      edge.why = list == &shown.sent ? Edge::Why::receive : Edge::Why::message;
      edges_.push_back(edge);
    }
  }
}

std::set<int> Waiting::roots() const {
  std::set<int> roots;
  for (const Edge& edge : edges_) roots.insert(edge.to);
  for (const Edge& edge : edges_) roots.erase(edge.from);
  return roots;
}

std::vector<int> Waiting::circle() const {
  std::map<int, int> next;
  for (const Edge& edge : edges_) next.emplace(edge.from, edge.to);
  for (const auto& [from, to] : next) {
    std::vector<int> way;
    for (int at = from; next.count(at) != 0; at = next[at]) {
      const auto again = std::find(way.begin(), way.end(), at);
      if (again != way.end()) return {again, way.end()};
      way.push_back(at);
    }
  }
  return {};
}

}  // namespace jobs
