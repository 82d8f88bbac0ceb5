// Supervision: gone peers. A rank that is lost, or has left, is no error of a communicator. Its data stays valid: this
// rank takes in all that has come, and calls whose data is there complete, also those that are made later. The first
// operation that cannot end without the rank fails its communicator, at once.
#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "executor/entering.h"
#include "executor/groups.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/needs.h"
#include "executor/supervision.h"
#include "health/peer_fates.h"

#include <algorithm>

namespace anello::executor {

void Supervision::lane_broke(Route& way) {
  routes_.take_out(way);
  gone_check_due_ = true;
  routes_.uncount_unsent(way);
  const Error* const cause = way.endpoint()->failure();
  // check_gone handles the rest, once control has had its time to report.
  if (cause == nullptr || cause->code() == ANELLO_ERR_PEER_LOST) return;
  outcomes_.fail_all_with(way.peer(),
                          Error(cause->code(),
                                text(job_.describe(way.peer()), ": ", cause->text(),
                                     way.broken_in().empty() ? "" : "; it was ", way.broken_in()),
                                way.peer()),
                          true);
}

bool Supervision::is_gone(const Group& group, int peer, std::string& how) const {
  const int world = group.ranks[std::size_t(peer)];
  const Flow* const flow = group.flows.find(peer);
  health::PeerFates::Signs signs;
  signs.left_communicator_at = flow != nullptr ? flow->left_ns : 0;
  signs.another_is_lost = first_lost(group) >= 0;
  signs.host_is_silent = job_.life(world, control::Job::Look::by_ear) == control::Life::silent;
  return fates_.is_gone(world, routes_.find(world), signs, now_ns(), how);
}

int Supervision::first_lost(const Group& group) const {
  return fates_.first_lost([&](int world) { return group.rank_of_world(world) >= 0; });
}

// Whether an operation in flight waits in vain for a gone peer.
bool Supervision::waits_in_vain(const Operation& operation, int peer) const {
  const Group& group = *operation.group;
  if (needs(operation, peer)) return true;
  // It waits for memory to map, and then for the lines of all ranks.
  if (parts_.entering.is_mapping(operation)) return true;
  if (!is_message(operation.kind) || operation.peer != ANELLO_ANY_SOURCE) return false;
  std::string how;
  for (int each = 0; each < group.size(); ++each) {
    if (each != group.rank && !is_gone(group, each, how)) return false;
  }
  return true;
}

void Supervision::check_gone(bool quiet) {
  if (!fates_.is_any() && !routes_.has_broken()) return;
  routes_.open_asked();
  fates_.look(now_ns(), [this](int world) { return routes_.find(world); });
  parts_.groups.each([&](Group& group) { check_gone(group, quiet); });
}

void Supervision::check_after_move(bool moved) {
  if (!fates_.is_any() || (!moved && !gone_check_due_)) return;
  gone_check_due_ = moved;
  if (!moved) check_gone(true);
}

void Supervision::check_gone(Group& group, bool quiet) {
  // Unless quiet, the group must not have moved between two looks: by the second, this rank has taken in all that had
  // come, and every answer to its frames.
  const bool moved = std::exchange(group.movement_at_look, group.movement) != group.movement && !quiet;
  if (moved) return;
  if (group.reported_end && !group.error) outcomes_.fail(group, group.reported_end, false);
  for (int peer = 0; peer < group.size() && !group.error; ++peer) {
    std::string how;
    if (peer != group.rank && is_gone(group, peer, how)) end_what_waits_for(group, peer, how);
  }
}

// Fails the group if an operation waits for the gone peer.
void Supervision::end_what_waits_for(Group& group, int peer, const std::string& gone_how) {
  const Operation* held_up = nullptr;
  // A halted collective ends, too, if the host of one of its ranks is silent: no one can say which others are cut off.
  const health::PeerFates::Loss* const known = fates_.loss_of(group.ranks[std::size_t(peer)]);
  const bool silent = known != nullptr && known->for_certain;
  const auto look = [&](const Operation& each) {
    if (held_up == nullptr && (waits_in_vain(each, peer) || (silent && !is_message(each.kind)))) held_up = &each;
  };
  for (const OperationFifo* list : {&group.window, &group.matched, &group.getting}) list->each(look);
  group.messages.each_request(look);
  const Flow* const flow = group.flows.find(peer);
  if (flow != nullptr) {
    for (const OperationFifo* list : {&flow->unsent, &flow->requested, &flow->cleared}) list->each(look);
  }
  // An earlier loss may have ended the peer's own call, and then the peer, before this rank has heard of that.
  int world = group.ranks[std::size_t(peer)];
  std::string how = gone_how;
  const int first = first_lost(group);
  const bool is_later = known != nullptr ? held_up != nullptr && !is_message(held_up->kind) && group.differs != peer
                                         : fates_.is_here(world);
  if (first >= 0 && first != world && is_later) {
    world = first;
    how = fates_.loss_of(first)->how;
  }
  const auto fail_by = [&](anello_result_t code, const Operation& operation, const std::string& why) {
    outcomes_.fail(group,
                   Error(code, text(call_text(operation), " on rank ", group.rank, " cannot complete: ", why), world),
                   true);
  };
  const std::string name = job_.describe(world);
  const Operation* front = group.window.front();
  const bool lost = fates_.loss_of(world) != nullptr;
  const std::string another_call =
      lost ? how + "; it had made another call" : text(name, " made another call, and ", how);
  if (held_up != nullptr && group.differs == peer) {
    fail_by(ANELLO_ERR_MISMATCH, *held_up, another_call);
  } else if (held_up != nullptr && !lost && flow != nullptr && flow->left_after) {
    // The account of that error is late, or lost with the rank that forwards it.
    const Error& there = flow->left_after;
    if (there.peer() >= 0) world = there.peer();
    fail_by(there.code(), *held_up, text(name, " ", how, ", which had failed there: ", result_name(there.code())));
  } else if (held_up != nullptr) {
    fail_by(ANELLO_ERR_PEER_LOST, *held_up, lost ? how : text(name, " ", how, " without taking its part in it"));
  } else if (front != nullptr && front->is_on_board() && group.board.differs(peer)) {
    // The peer is not there to say which call it made.
    fail_by(ANELLO_ERR_MISMATCH, *front, another_call);
  }
}

std::vector<int> Supervision::lost_ranks(const Group& group) const {
  // Another rank's account of the failure may come before control reports the loss that caused it.
  const int told = group.error && group.error.code() == ANELLO_ERR_PEER_LOST ? group.error.peer() : -1;
  std::vector<int> lost;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    const Flow* const flow = group.flows.find(peer);
    const bool stays = fates_.is_here(world) && (flow == nullptr || flow->left_ns == 0);
    if (fates_.of(world) == health::PeerFates::Fate::lost || (world == told && stays)) lost.push_back(peer);
  }
  return lost;
}

std::vector<int> Supervision::suspected_ranks(const Group& group) const {
  std::vector<int> suspected;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    const bool here = peer != group.rank && fates_.is_here(world);
    if (here && job_.life(world, control::Job::Look::by_ear) != control::Life::heard) suspected.push_back(peer);
  }
  return suspected;
}

}  // namespace anello::executor
