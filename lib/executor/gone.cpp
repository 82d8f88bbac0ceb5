// Context: peers that are gone. That a rank is lost, or has left, is no error of a communicator. What it had given
// stays given: all that has come is taken in, and calls whose data is there complete, also those that are made later.
// The first operation that cannot end without the rank fails its communicator, at once.
#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "executor/context.h"
#include "executor/run.h"

#include <algorithm>

#include <sys/epoll.h>

namespace anello::executor {

namespace {

constexpr std::int64_t kMs = 1'000'000;
// For the end of a socket's lane to come, or more over it, once control has said that its rank is lost. Of a host that
// has vanished neither does.
constexpr std::int64_t kEndOfLane = 2000 * kMs;

}  // namespace

void Context::hear_of_loss(control::Event& event) {
  Gone& known = gone_[std::size_t(event.peer)];
  if (known == Gone::left) return;  // which is why there is no connection to it
  known = Gone::lost;
  any_gone_ = true;
  const std::int64_t now = now_ns();
  const Lost as_heard{event.error.text(), event.found_here, false, 0, now, lost_.size()};
  Lost& lost = lost_.try_emplace(event.peer, as_heard).first->second;
  lost.for_certain = lost.for_certain || event.for_certain;
}

void Context::lane_broke(Route& way) {
  open_routes_.erase(std::remove(open_routes_.begin(), open_routes_.end(), &way), open_routes_.end());
  suspects_.push_back(&way);
  gone_look_due_ = true;
  settle(way);
  // Else its end of file would keep everybody awake who waits on descriptors.
  if (const int descriptor = way.endpoint()->descriptor(); descriptor >= 0) {
    --sockets_;
    driver_.descriptors().remove(descriptor);
  }
  const Error* const cause = way.endpoint()->failure();
  // check_gone, when control has had its time to tell.
  if (cause == nullptr || cause->code() == ANELLO_ERR_PEER_LOST) return;
  fail_all_with(way.peer(),
                Error(cause->code(),
                      text(job_->describe(way.peer()), ": ", cause->text(), way.broken_in().empty() ? "" : "; it was ",
                           way.broken_in()),
                      way.peer()),
                true);
}

bool Context::gone_for(const Group& group, int peer, std::string& how) const {
  const int world = group.ranks[std::size_t(peer)];
  const Flow* const flow = group.flows.find(peer);
  Route* way = routes_[std::size_t(world)].get();
  const std::int64_t long_ago = now_ns() - kWordFromControl;
  const bool is_open = way != nullptr && way->state() == Route::State::open;
  if (const auto lost = lost_.find(world); lost != lost_.end()) {
    how = lost->second.how;
    if (lost->second.for_certain) return true;
    // A lane that is open still has something to give, or its end is on its way.
    return !is_open || (way->endpoint()->descriptor() >= 0 && lost->second.quiet_ns < now_ns() - kEndOfLane);
  }
  if (flow != nullptr && flow->left_ns != 0 && flow->left_ns < long_ago) {
    how = "destroyed this communicator";
    return true;
  }
  if (gone_[std::size_t(world)] == Gone::left && left_ns_[std::size_t(world)] < long_ago) {
    // What it sent before may still be on the way in a socket; its end says that all has come.
    // In shared memory all of it is there already, though perhaps not looked at.
    if (is_open && (way->endpoint()->descriptor() >= 0 || way->has_arrivals())) return false;
    how = "left the job";
    return true;
  }
  // Who ends while another member is lost has seen that, and control's word, which may have gone with it, would be the
  // same.
  if (way != nullptr && way->state() == Route::State::broken &&
      (way->broken_since_ns() < long_ago || first_lost(group) >= 0)) {
    how = "closed its connection";
    return true;
  }
  return false;
}

// The member that control has known to be lost for longest; -1: there is none.
int Context::first_lost(const Group& group) const {
  int first = -1;
  for (const auto& [world, lost] : lost_) {
    if (lost.found_here || group.rank_of_world(world) < 0) continue;
    if (first < 0 || lost.number < lost_.at(first).number) first = world;
  }
  return first;
}

// Since when nothing has come from them. A process that was stopped has taken in nothing meanwhile.
void Context::look_at_lost(std::int64_t now) {
  constexpr std::int64_t kStopped = 500 * kMs;
  const bool stopped = now - std::exchange(looked_at_lost_ns_, now) > kStopped;
  for (auto& [world, lost] : lost_) {
    Route* const way = routes_[std::size_t(world)].get();
    const std::uint64_t came = way != nullptr ? way->came() : 0;
    if (std::exchange(lost.came, came) != came || stopped) lost.quiet_ns = now;
    // What a process had put into shared memory could be seen before its end could.
    const bool is_open = way != nullptr && way->state() == Route::State::open;
    if (is_open && way->endpoint()->descriptor() < 0 && !way->has_arrivals()) way->break_off();
  }
}

// Of an operation that is under way.
bool Context::waits_in_vain(const Operation& operation, int peer) const {
  const Group& group = *operation.group;
  if (needs(operation, peer)) return true;
  // For memory to map, and behind that for lines of all.
  if (std::find(mapping_.begin(), mapping_.end(), &operation) != mapping_.end()) return true;
  if (!is_message(operation.kind) || operation.peer != ANELLO_ANY_SOURCE) return false;
  std::string how;
  for (int each = 0; each < group.size(); ++each) {
    if (each != group.rank && !gone_for(group, each, how)) return false;
  }
  return true;
}

// Operations that wait for a rank that will send no more end now, not at their deadline. quiet: all that had come has
// just been taken in.
void Context::check_gone(bool quiet) {
  if (!any_gone_ && suspects_.empty()) return;
  if (job_->arena()) open_asked();
  look_at_lost(now_ns());
  for (const auto& [id, found] : groups_) {
    Group* const group = found;  // for lambdas: not all compilers let them have the other name
    // Else only what still stands at a second look: between the two everything that had come, and every answer to what
    // was sent, has been taken in.
    const bool moved = std::exchange(group->movement_at_look, group->movement) != group->movement && !quiet;
    if (group->told_end && !group->error && !moved) fail(*group, group->told_end, false);
    for (int peer = 0; peer < group->size() && !group->error && !moved; ++peer) {
      std::string how;
      if (peer == group->rank || !gone_for(*group, peer, how)) continue;
      const Operation* held_up = nullptr;
      // A collective that has come to a halt while the host of one of its ranks is silent: who else is cut off with it
      // nobody can say.
      const auto known = lost_.find(group->ranks[std::size_t(peer)]);
      const bool silent = known != lost_.end() && known->second.for_certain;
      const auto look = [&](const Operation& each) {
        if (held_up == nullptr && (waits_in_vain(each, peer) || (silent && !is_message(each.kind)))) held_up = &each;
      };
      for (const OperationFifo* list : {&group->window, &group->receives, &group->probes, &group->matched})
        list->each(look);
      if (const Flow* flow = group->flows.find(peer)) {
        for (const OperationFifo* list : {&flow->announcing, &flow->announced, &flow->granted}) list->each(look);
      }
      // A rank whose own call another loss has ended may be lost itself before this one has heard of that.
      int world = group->ranks[std::size_t(peer)];
      const int first = first_lost(*group);
      const bool is_later = lost_.contains(world)
                                ? held_up != nullptr && !is_message(held_up->kind) && group->differs != peer
                                : gone_[std::size_t(world)] == Gone::no;
      if (first >= 0 && first != world && is_later) {
        world = first;
        how = lost_.at(first).how;
      }
      const auto fail_by = [&](anello_result_t code, const Operation& operation, const std::string& why) {
        fail(*group,
             Error(code, text(call_text(operation), " on rank ", group->rank, " cannot complete: ", why), world), true);
      };
      const std::string name = job_->describe(world);
      const Operation* front = group->window.front();
      const bool lost = lost_.contains(world);
      const std::string another_call =
          lost ? how + "; it had made another call" : text(name, " made another call, and ", how);
      if (held_up != nullptr && group->differs == peer) {
        fail_by(ANELLO_ERR_MISMATCH, *held_up, another_call);
      } else if (held_up != nullptr) {
        fail_by(ANELLO_ERR_PEER_LOST, *held_up, lost ? how : text(name, " ", how, " without taking its part in it"));
      } else if (front != nullptr && front->is_on_board() && group->board.differs(peer)) {
        // It is not there to say which.
        fail_by(ANELLO_ERR_MISMATCH, *front, another_call);
      }
    }
  }
}

std::vector<int> Context::lost_ranks(Group& group) {
  const Lock held = lock();
  const kernels::DefaultFloats floats;
  // Nobody may have waited since the group failed.
  if (job_->news.load(std::memory_order_acquire)) handle_events();
  // Another rank's account of the failure may come before control's word of the loss that caused it.
  const int told = group.error && group.error.code() == ANELLO_ERR_PEER_LOST ? group.error.peer() : -1;
  std::vector<int> lost;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    const Flow* const flow = group.flows.find(peer);
    const bool stays = gone_[std::size_t(world)] == Gone::no && (flow == nullptr || flow->left_ns == 0);
    if (gone_[std::size_t(world)] == Gone::lost || (world == told && stays)) lost.push_back(peer);
  }
  return lost;
}

std::vector<int> Context::suspected_ranks(Group& group) {
  const Lock held = lock();
  std::vector<int> suspected;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    const bool here = peer != group.rank && gone_[std::size_t(world)] == Gone::no;
    if (here && job_->life(world, control::Job::Look::by_ear) != control::Life::heard) suspected.push_back(peer);
  }
  return suspected;
}

}  // namespace anello::executor
