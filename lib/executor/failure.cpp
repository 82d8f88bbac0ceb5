// Context: deadlines, ranks that disagree, and what ends operations that cannot succeed.
#include "base/clock.h"
#include "base/kind.h"
#include "base/log.h"
#include "executor/context.h"
#include "executor/pending_steps.h"
#include "executor/peer_work.h"
#include "executor/run.h"

#include <algorithm>
#include <bit>

namespace anello::executor {

namespace {

// Without news for so long, the service threads compare what the ranks have called.
constexpr std::int64_t kComparePause = 50 * kMs;
// A thread that has something to do may wait for so long for each rank that it shares the processor with.
constexpr std::int64_t kTimeSlice = 4 * kMs;
// Where lines disagree: a rank may not have written down its call when it was asked.
constexpr std::int64_t kAskAgain = 10 * kMs;
constexpr std::int64_t kLongestPause = 2000 * kMs;
// For the others to say where they are, once a deadline has passed.
constexpr std::int64_t kTimeToAnswer = 50 * kMs;
// For the account of an end that a board tells of. Its rank may be kept for so long by a peer at its buffers, and its
// service thread with it.
constexpr std::int64_t kAccountOfEnd = 500 * kMs + kKeepOutMs * kMs;

// How long a rank waits for news before it asks, the first time. The lowest ask first: all others hear the question,
// which stands for theirs too, before they come to it.
std::int64_t first_pause(int rank, int sharing) {
  const std::int64_t step = kComparePause + (sharing > 1 ? sharing * kTimeSlice : 0);
  return step * (1 + std::bit_width(unsigned(rank) / 4));
}

// In one sentence.
constexpr std::size_t kMostNamed = 8;

}  // namespace

std::string call_text(const Operation& operation) {
  if (operation.kind == ANELLO_PROBE) {
    return text("probe(from ", operation.peer, ", tag ", operation.tag, ")", operation.label.quoted());
  }
  if (is_message(operation.kind)) {
    return text(kind_name(operation.kind), "(count ", operation.count, ", ", dtype_name(operation.dtype),
                operation.kind == ANELLO_SEND ? ", to " : ", from ", operation.peer, ", tag ", operation.tag, ")",
                operation.label.quoted());
  }
  control::CallRecord record;
  record.kind = operation.kind;
  record.dtype = operation.dtype;
  record.op = operation.op;
  record.root = operation.peer;
  record.count = operation.count;
  record.set_label(operation.label);
  return text("operation ", operation.sequence, ", ", record.describe());
}

// Its name, and whether it runs.
std::string Context::describe_now(int world) const {
  const control::Life life = job_->life(world, control::Job::Look::closely);
  return job_->describe(world) + (life == control::Life::stopped  ? ", which is stopped by a signal or a debugger,"
                                  : life == control::Life::silent ? ", whose host is silent,"
                                                                  : "");
}

// Whom it waits for: "data from rank 2 (host a, pid 7)".
std::string Context::waits_for(const Operation& operation) const {
  const Group& group = *operation.group;
  std::string list;
  const auto add = [&](const char* what, int peer) {
    if (!list.empty()) list += ", ";
    list += text(what, describe_now(group.ranks[std::size_t(peer)]));
  };
  if (operation.kind == ANELLO_SEND) {
    add("the receive of ", operation.peer);
  } else if (is_message(operation.kind)) {
    if (operation.peer == ANELLO_ANY_SOURCE) return "a message from any rank";
    add("a message from ", operation.peer);
  } else if (operation.state == Operation::State::queued) {
    return "earlier operations of this communicator";
  } else if (operation.is_on_board()) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (group.board.awaits(peer)) add("", peer);
    }
  } else {
    for (const RunLane& lane : operation.run.lanes) {
      const auto& receives = lane.plan->receives;
      if (lane.next_receive < receives.size() && operation.run.waits[receives[lane.next_receive]] == 0) {
        add("data from ", lane.plan->peer);
      } else if (lane.queued) {
        add("room to send to ", lane.plan->peer);
      }
    }
  }
  return list.empty() ? "another rank" : list;
}

// Behind a chain of ranks that wait for each other. Who has not come may itself wait for one that does not run.
std::string Context::who_is_absent(const Operation& operation) const {
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
  const control::Absent absent = job_->absent(group.id, operation.sequence);
  return list(absent.not_come, " not having come to this operation") + list(absent.silent, " not answering");
}

// Looks at the clock for all of it; called by those who have nothing better to do, and now and then by all who drive.
void Context::tick(Watched watched) {
  const std::int64_t now = now_ns();
  for (Operation* const each : watched) {
    if (each != nullptr && !each->done.load(std::memory_order_relaxed)) check_deadline(*each);
  }
  if (now < next_tick_ns_) return;
  next_tick_ns_ = now + 20 * kMs;
  check_gone(false);
  for (auto& [id, group] : groups_) {
    look_for_end(*group, now);
    Operation* front = group->window.front();
    if (front == nullptr || group->error) continue;
    if (group->compared_movement != group->movement || group->compare_at_ns == 0) {
      group->compared_movement = group->movement;
      group->compare_pause_ns = first_pause(group->rank, sharing_);
      group->compare_at_ns = now + group->compare_pause_ns;
    } else if (now >= group->compare_at_ns) {
      group->compare_pause_ns = std::min(2 * group->compare_pause_ns, kLongestPause);
      group->compare_at_ns = now + group->compare_pause_ns;
      job_->look_at_calls(group->id, front->sequence);
      look_at_early(*group);
      if (group->differs >= 0) job_->compare_calls(group->id, group->differs_at, group->differs);
    }
  }
}

// Of all that is under way, for a rank that never waits.
void Context::check_deadlines() {
  std::vector<Operation*> under_way;
  for (auto& [id, group] : groups_) {
    const auto add = [&](Operation& each) { under_way.push_back(&each); };
    group->window.each(add);
    group->messages.each_request(add);
    group->matched.each(add);
    group->getting.each(add);
    for (const Flow& flow : group->flows) {
      flow.unsent.each(add);
      flow.requested.each(add);
      flow.cleared.each(add);
    }
    group->messages.each_message([&](const Unexpected& message) {
      if (message.local != nullptr) add(*message.local);
    });
  }
  for (Operation* each : under_way) {
    if (each->state != Operation::State::done)
      check_deadline(*each);  // else one of its communicator before it failed all
  }
}

// What control tells of an end is the better account, but it comes through one rank, which may be stopped.
void Context::look_for_end(Group& group, std::int64_t now) {
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
  // Whom another error is about the board does not say.
  const bool about_itself = end.first_hand && end.code == ANELLO_ERR_ABORTED;
  fail(group,
       Error(end.code,
             text(job_->describe(world), " has ended this communicator with ", result_name(end.code),
                  "; why has not come, since ", job_->describe(passes_on == rank_ ? world : passes_on),
                  ", which would tell, does not run"),
             about_itself ? world : -1),
       false);
}

void Context::check_deadline(Operation& watched) {
  const bool message = is_message(watched.kind);
  const std::uint64_t movement = message ? watched.movement : watched.group->movement;
  const std::int64_t now = now_ns();
  if (watched.last_progress_ns == 0 || watched.seen_movement != movement) {
    watched.seen_movement = movement;
    watched.last_progress_ns = now;
    watched.asked_ns = 0;
    return;
  }
  if (now - watched.last_progress_ns < watched.timeout_ns) return;
  Group& group = *watched.group;
  if (!message && watched.asked_ns == 0) {
    // The rank that this one waits for may itself be waiting: who has not come is worth knowing before all give up.
    watched.asked_ns = now;
    job_->compare_calls(group.id, watched.sequence);
  }
  if (!message && now - watched.asked_ns < kTimeToAnswer) return;
  fail(group,
       Error(ANELLO_ERR_TIMEOUT, text(call_text(watched), " on rank ", group.rank, " made no progress for ",
                                      (now - watched.last_progress_ns) / kMs, " ms: it waits for ", waits_for(watched),
                                      message ? "" : who_is_absent(watched),
                                      ". Raise ANELLO_TIMEOUT_MS if a rank may be busy for so long")),
       true);
}

// Lines that this rank had no need of may have come by now. One that does not come may never: its rank was refused the
// call, perhaps before this one had written its own down.
void Context::look_behind(Group& group) {
  if (group.error) return;
  const auto disagreed = group.board.disagreed();
  if (disagreed) {
    suspect(group, disagreed->sequence, disagreed->rank);
  } else {
    group.board.catch_up();
  }
  if (!group.board.is_behind()) {
    group.ask_again_ns = 0;
    return;
  }
  const std::int64_t now = now_ns();
  if (now < group.ask_again_ns) return;
  if (group.ask_again_ns != 0) job_->compare_calls(group.id, group.board.behind_at());
  group.ask_again_ns = now + (disagreed ? kAskAgain : kComparePause);
}

void Context::suspect(Group& group, std::uint32_t sequence, int peer) {
  // The answer is an event. Asked again by tick, should records agree after all, or the peer not answer. What comes of
  // later calls, perhaps for each of thousands, follows from the first one that differs.
  const bool known = group.differs >= 0 && !control::before(sequence, group.differs_at);
  if (known || (peer < 0 && group.suspected && group.suspected_at == sequence)) return;
  group.suspected = true;
  group.suspected_at = sequence;
  if (peer >= 0) {
    group.differs = peer;
    group.differs_at = sequence;
    look_at_early(group);
    if (group.differs_at != sequence) return;  // it found one of an earlier call
  }
  job_->compare_calls(group.id, sequence, peer);
}

// In this rank's next exchange, or one whose lines it had no need of, is a line of another call.
void Context::suspect_lines(Group& group, const Operation& waiting) {
  if (const auto disagreed = group.board.disagreed()) {
    suspect(group, disagreed->sequence, disagreed->rank);
    return;
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank || !group.board.differs(peer)) continue;
    suspect(group, waiting.sequence, peer);
    return;
  }
}

// What came before this rank had come to its call, and stays where the call expects nothing of its sender: it is
// another one.
void Context::look_at_early(Group& group) {
  if (group.error) return;
  const Operation* const front = group.window.front();
  // Those after it are not under way, and have not taken theirs.
  const std::uint32_t end = front != nullptr ? front->sequence + kWindow : group.next_sequence;
  for (const Flow& flow : group.flows) {
    for (const EarlyFrame* frame = flow.early.front(); frame != nullptr; frame = frame->next) {
      const std::uint32_t sequence = frame->header.sequence;
      if (!control::before(sequence, end) || (group.differs >= 0 && !control::before(sequence, group.differs_at)))
        continue;
      if (group.is_of_another_call(group.find(sequence), frame->header)) suspect(group, sequence, flow.peer);
    }
  }
}

// ---- The end of operations ----

void Context::end_all(Group& group, const Error& error) {
  if (group.board) group.board.stop_gets_of_peers();
  for (Flow& flow : group.flows) {
    if (flow.route != nullptr) flow.route->forget(group);
    while (flow.steps.pop() != nullptr) {
    }
    for (OperationFifo* list : {&flow.unsent, &flow.requested, &flow.cleared}) {
      while (Operation* operation = list->pop()) finish(*operation, error);
    }
    frames_.give_back_all(flow.early);
  }
  while (group.on_board.pop() != nullptr) {
  }
  on_boards_.erase(std::remove(on_boards_.begin(), on_boards_.end(), &group), on_boards_.end());
  while (Operation* operation = group.messages.withdraw_any()) finish(*operation, error);
  while (Operation* operation = group.matched.pop()) finish(*operation, error);
  while (Operation* operation = group.getting.pop()) {
    memory_of(group, operation->peer)->withdraw(reinterpret_cast<std::uintptr_t>(operation));
    finish(*operation, error);
  }
  while (Operation* operation = group.window.pop()) {
    withdraw(*operation);
    if (operation->state == Operation::State::active) {
      for (RunLane& lane : operation->run.lanes) give_back_frames(lane);
    }
    operation->state = Operation::State::queued;  // out of the window already
    finish(*operation, error);
  }
  group.active = 0;
  group.messages.each_message([&](const Unexpected& message) {
    if (message.eager != nullptr) frames_.give_back(message.eager);
    if (message.local != nullptr) finish(*message.local, error);
  });
  group.messages.forget_messages();
}

void Context::fail(Group& group, const Error& error, bool tell) {
  if (group.error) return;
  group.error = error;
  // First: the others wait only so long for the account of it after they see the word on the board, and to end what is
  // under way may take this rank a second, where a peer is stopped at its buffers.
  if (tell) job_->fail_communicator(group.id, error);
  if (group.board) group.board.tell_failed(group.id, {error.code(), tell});
  log::info(rank_, "communicator failed: ", result_name(error.code()), ": ", error.text());
  end_all(group, error);
}

void Context::fail_all_with(int world, const Error& error, bool tell) {
  for (auto& [id, group] : groups_) {
    if (group->rank_of_world(world) >= 0) fail(*group, error, tell);
  }
}

void Context::abort(Group& group, const Error& cause) {
  {
    const Lock held = lock();
    fail(group, cause, true);
  }
  job_->finish_telling();
  driver_.notify();
}

}  // namespace anello::executor
