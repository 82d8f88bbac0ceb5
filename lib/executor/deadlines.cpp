// Supervision: deadlines, and the error of an operation that has passed its own.
#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "executor/groups.h"
#include "executor/outcomes.h"
#include "executor/peer_work.h"
#include "executor/routes.h"
#include "executor/run.h"
#include "executor/supervision.h"
#include "health/peer_fates.h"

#include <algorithm>

namespace anello::executor {

namespace {

// The others have this long to say where they are, once a deadline has passed.
constexpr std::int64_t kTimeToAnswer = 50 * kMs;
// The account of an end that a board shows may take this long: a peer at the buffers of the rank that ended may hold up
// that rank, and its service thread with it.
constexpr std::int64_t kAccountOfEnd = 500 * kMs + kKeepOutMs * kMs;

// One sentence names at most this many ranks.
constexpr std::size_t kMostNamed = 8;

}  // namespace

Supervision::Supervision(Parts& parts)
    : parts_(parts),
      job_(parts.job),
      routes_(parts.routes),
      fates_(parts.fates),
      outcomes_(parts.outcomes),
      sharing_(parts.sharing) {}

// A rank's name, and whether it runs.
std::string Supervision::describe_now(int world) const {
  const control::Life life = job_.life(world, control::Job::Look::closely);
  return job_.describe(world) + (life == control::Life::stopped  ? ", which is stopped by a signal or a debugger,"
                                 : life == control::Life::silent ? ", whose host is silent,"
                                                                 : "");
}

std::vector<Supervision::Awaited> Supervision::awaited(const Operation& operation) {
  using What = recorder::Waits::What;
  const Group& group = *operation.group;
  std::vector<Awaited> list;
  if (operation.state == Operation::State::queued) return list;
  if (operation.is_on_board()) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (group.board.awaits(peer)) list.push_back({What::call, peer});
    }
    return list;
  }
  for (const RunLane& lane : operation.run.lanes) {
    const auto& receives = lane.plan->receives;
    if (lane.next_receive < receives.size() && operation.run.waits[receives[lane.next_receive]] == 0) {
      list.push_back({What::data, lane.plan->peer});
    } else if (lane.queued || lane.offered > 0) {
      list.push_back({What::room, lane.plan->peer});
    }
  }
  return list;
}

void Supervision::show_waits(Group& group, control::Job::Look look) const {
  using Life = recorder::Waits::Life;
  const Operation* const oldest = group.window.front();
  if (oldest == nullptr) return;
  recorder::Waits waits;
  waits.sequence = oldest->sequence;
  if (oldest->state == Operation::State::active && oldest->plan != nullptr) {
    waits.steps = int(oldest->plan->schedule.steps.size());
    waits.steps_ended = waits.steps - int(oldest->run.unfinished);
  }
  for (const Awaited& each : awaited(*oldest)) {
    if (waits.peers == recorder::Waits::kMost) {
      ++waits.more;
      continue;
    }
    const int world = group.ranks[std::size_t(each.peer)];
    const control::Life life = job_.life(world, look);
    waits.peer[waits.peers++] = {each.peer, world, each.what,
                                 fates_.takes_nothing(world)      ? Life::lost
                                 : life == control::Life::stopped ? Life::stopped
                                 : life == control::Life::silent  ? Life::silent
                                                                  : Life::runs};
  }
  group.record->waits.publish(waits);
}

// The ranks that the operation waits for: "data from rank 2 (host a, pid 7)".
std::string Supervision::waits_for(const Operation& operation) const {
  const Group& group = *operation.group;
  std::string list;
  const auto add = [&](const char* what, int peer) {
    if (!list.empty()) list += ", ";
    list += text(what, describe_now(group.ranks[std::size_t(peer)]));
    if (list.back() == ',') list.pop_back();  // nothing follows about this rank
  };
  if (const Shadow* const shadow = operation.shadow.get();
      shadow != nullptr && (shadow->is_copying || shadow->is_fetching()))
    return text(shadow->is_fetching() ? "its data from" : "its result to reach", " device ", shadow->device);
  if (operation.is_in_place() && operation.run.pending > 0)
    return text("its own work on device ", operation.shadow->device);
  if (operation.kind == ANELLO_SEND) {
    add("the receive of ", operation.peer);
  } else if (is_message(operation.kind)) {
    if (operation.peer == ANELLO_ANY_SOURCE) return "a message from any rank";
    add("a message from ", operation.peer);
  } else if (operation.state == Operation::State::queued) {
    return "earlier operations of this communicator";
  } else {
    using What = recorder::Waits::What;
    for (const Awaited& each : awaited(operation))
      add(each.what == What::call ? "" : each.what == What::data ? "data from " : "room to send to ", each.peer);
  }
  return list.empty() ? "another rank" : list;
}

// The ranks behind a chain of waiting ranks. A rank that has not come may itself wait for one that does not run.
std::string Supervision::who_is_absent(const Operation& operation) const {
  const Group& group = *operation.group;
  const auto list = [&](const std::vector<int>& ranks, const char* what) {
    std::string names;
    std::size_t named = 0;
    for (const int peer : ranks) {
      if (peer == group.rank) continue;
      if (++named <= kMostNamed)
        names += text(names.empty() ? "; " : ", ", describe_now(group.ranks[std::size_t(peer)]));
    }
    if (named > kMostNamed) names += text(" and ", named - kMostNamed, " more");
    return names.empty() ? names : names + what;
  };
  const control::Absent absent = job_.absent(group.id, operation.sequence);
  return list(absent.not_come, " not having come to this operation") + list(absent.silent, " not answering");
}

void Supervision::tick(Watched watched) {
  const std::int64_t now = now_ns();
  for (Operation* const each : watched) {
    if (each != nullptr && !each->done.load(std::memory_order_relaxed)) check_deadline(*each);
  }
  if (now < next_tick_ns_) return;
  next_tick_ns_ = now + 20 * kMs;
  check_gone(false);
  parts_.groups.each([&](Group& group) {
    check_for_end(group, now);
    compare_if_still(group, now);
    show_waits(group, control::Job::Look::by_ear);
  });
}

void Supervision::tick_all() {
  if (now_ns() < next_tick_ns_) return;
  std::vector<Operation*> under_way;
  parts_.groups.each([&](Group& group) {
    const auto add = [&](Operation& each) { under_way.push_back(&each); };
    group.window.each(add);
    group.messages.each_request(add);
    group.matched.each(add);
    group.getting.each(add);
    for (const Flow& flow : group.flows) {
      flow.unsent.each(add);
      flow.requested.each(add);
      flow.cleared.each(add);
    }
    group.messages.each_message([&](const Unexpected& message) {
      if (message.local != nullptr) add(*message.local);
    });
  });
  for (Operation* each : under_way) {
    if (each->state != Operation::State::done)
      check_deadline(*each);  // else an earlier deadline has failed its communicator
  }
  tick({});
}

// Control gives the better account of an end, but it comes through one rank, which may be stopped.
void Supervision::check_for_end(Group& group, std::int64_t now) {
  if (!group.board || group.error) return;
  Board::Failed end;
  int world = -1;
  for (int peer = 0; peer < group.size() && !end.first_hand; ++peer) {
    const Board::Failed its = peer == group.rank ? Board::Failed{} : group.board.failed(peer, group.id);
    if (its.code == ANELLO_OK || (end.code != ANELLO_OK && !its.first_hand)) continue;
    end = its;
    world = group.ranks[std::size_t(peer)];
  }
  if (end.code == ANELLO_OK) return;
  if (group.end_seen_ns == 0) group.end_seen_ns = now;
  if (now - group.end_seen_ns < kAccountOfEnd) return;
  const auto passes_on = fates_.first_here();
  // The board does not say which rank any other error is about.
  const bool about_itself = end.first_hand && end.code == ANELLO_ERR_ABORTED;
  outcomes_.fail(group,
                 Error(end.code,
                       text(job_.describe(world), " has ended this communicator with ", result_name(end.code),
                            "; why has not come, since ", job_.describe(passes_on == job_.rank() ? world : passes_on),
                            ", which would tell, does not run"),
                       about_itself ? world : -1),
                 false);
}

void Supervision::check_deadline(Operation& watched) {
  if (watched.is_in_stream() && !watched.is_ready() && !watched.shadow->is_copying) return;  // its stream may take time
  const bool message = is_message(watched.kind);
  const std::uint64_t movement = message ? watched.movement : watched.group->movement;
  const std::int64_t now = now_ns();
  if (watched.last_progress_ns == 0 || watched.seen_movement != movement) {
    if (watched.last_progress_ns == 0) note_stay(watched, now);
    watched.seen_movement = movement;
    watched.last_progress_ns = now;
    watched.asked_ns = 0;
    return;
  }
  if (now - watched.last_progress_ns < watched.timeout_ns) return;
  Group& group = *watched.group;
  if (!message && watched.asked_ns == 0) {
    // The awaited rank may itself be waiting: before all give up, this rank asks which ranks have not come.
    watched.asked_ns = now;
    job_.compare_calls(group.id, watched.sequence);
  }
  if (!message && now - watched.asked_ns < kTimeToAnswer) return;
  outcomes_.fail(group,
                 Error(ANELLO_ERR_TIMEOUT, text(call_text(watched), " on rank ", group.rank, " made no progress for ",
                                                (now - watched.last_progress_ns) / kMs, " ms: it waits for ",
                                                waits_for(watched), message ? "" : who_is_absent(watched),
                                                ". Raise ANELLO_TIMEOUT_MS if a rank may be busy for so long")),
                 true);
}

}  // namespace anello::executor
