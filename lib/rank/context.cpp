#include "rank/context.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "control/occupancy.h"
#include "executor/exchange.h"
#include "executor/run.h"

#include <algorithm>

#include <sched.h>
#include <unistd.h>

namespace anello::executor {

Context::Context(std::unique_ptr<control::Job> job, std::vector<AvailableTransport> transports, long spin_us,
                 memory::ReadPolicy::Wish staging, std::unique_ptr<Engine> engine)
    : job_(std::move(job)),
      rank_(job_->rank()),
      driver_(*job_, *this, spin_us),
      sharing_(control::occupancy_of(job_->members(), rank_).ranks_per_processor()),
      activity_(job_->arena()),
      fates_(job_->size()),
      parts_{*job_,     sharing_, staging,     driver_,   fates_,       frames_,    buffers_, activity_,
             groups_,   routes_,  kept_,       steps_,    gets_,        step_gets_, shadows_, stream_calls_,
             messages_, rounds_,  announcing_, entering_, supervision_, *this},
      routes_(parts_, std::move(transports)),
      kept_(parts_),
      steps_(parts_, std::move(engine)),
      gets_(parts_),
      step_gets_(parts_),
      shadows_(parts_),
      stream_calls_(parts_),
      messages_(parts_),
      rounds_(parts_),
      announcing_(parts_),
      entering_(parts_),
      supervision_(parts_) {}

Context::~Context() {
  driver_.close();
  {
    const Lock held = lock();
    routes_.drain();  // so that all sent frames still arrive
  }
  routes_.close();  // before the job, since endpoints use the arena
}

// ---- Groups ----

std::unique_ptr<Group> Context::add_group(std::uint64_t id, std::vector<int> ranks, Board board,
                                          std::uint32_t first_sequence) {
  std::unique_ptr<Group> group;
  {
    const Lock held = lock();
    const auto me = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    // The number of a group's communicator comes from its first member.
    if (groups_.contains(id)) {
      throw Error(ANELLO_ERR_CORRUPT,
                  text("rank ", ranks.front(), " gave a new communicator the number of one that there is (", id, ")"),
                  ranks.front());
    }
    group = std::make_unique<Group>(parts_, id, ranks, static_cast<int>(me), std::move(board), first_sequence);
    // Even the first call that must wait allocates nothing.
    rounds_.reserve(groups_.size() + 1);
    steps_.reserve(groups_.size() + 1);
    // This comes first: from here on, the others hear of a failure of the communicator.
    job_->add_communicator(id, std::move(ranks), &group->record);
    try {
      groups_.add(*group);
    } catch (const std::bad_alloc&) {
      job_->remove_communicator(id);
      throw;
    }
    group->by_address = group->size() > 1;
    for (int peer = 0; peer < group->size(); ++peer) {
      if (peer == group->rank) continue;
      if (!routes_.shares_addresses(*group, peer)) group->by_address = false;
      if (gets_.is_far(*group, peer)) group->has_far_peers = true;
    }
    with_memory(*group, [&] { kept_.deliver_strays(*group); });
    if (const std::optional<Error> failed = kept_.take_failure(id); failed && !group->error) group->error = *failed;
  }
  return group;
}

// A rank whose last call returned early may hold a frame of another call that the others made instead: the verdict is
// worth a moment, since no rank will ask this one again.
void Context::take_verdict(Group& group) {
  const Deadline limit = Deadline::in_ms(1000);
  Lock held = lock();
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
  }
  if (group.board) supervision_.check_lines_behind(group);
  supervision_.check_early_frames(group);
  while (group.suspected && !group.error && !limit.passed()) {
    held.unlock();
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
    held.lock();
    if (job_->news.load(std::memory_order_acquire)) handle_events();
    if (group.board) supervision_.check_lines_behind(group);
  }
}

Error Context::remove_group(Group& group) {
  take_verdict(group);
  job_->remove_communicator(group.id);
  const Lock held = lock();
  if (job_->news.load(std::memory_order_acquire)) handle_events();
  if (group.reported_end && !group.error) fail(group, group.reported_end, false);
  const Error first = group.error;
  const Error ended(ANELLO_ERR_STATE, "the communicator was destroyed");
  end_all(group, first ? first : ended);
  for (int peer = 0; peer < group.size(); ++peer) {
    const Route* const way = routes_.find(group.ranks[std::size_t(peer)]);
    // The note goes in the lane, behind all other frames: the peer then knows that no more comes.
    if (way == nullptr || way->state() != Route::State::open || way->endpoint()->failure()) continue;
    transport::FrameHeader leave;
    leave.kind = static_cast<std::uint16_t>(FrameKind::leave);
    leave.communicator = group.id;
    leave.flags = static_cast<std::uint16_t>(first.code());
    leave.tag = static_cast<std::uint32_t>(first.peer() + 1);
    Flow& flow = group.flows.to(peer);
    flow.notes.push_back(leave);
    flow.route->list(flow);
  }
  // The notes leave now or, on a full lane, are dropped with the group: the service threads tell the same.
  const Deadline limit = Deadline::in_ms(100);
  for (Flow& flow : group.flows) {
    if (flow.route == nullptr) continue;
    while (flow.route->has_notes(flow) && flow.route->state() == Route::State::open && !limit.passed()) {
      if (!flow.route->push()) sched_yield();
    }
    flow.route->forget_notes(group);
  }
  if (!group.error) group.error = ended;
  rounds_.forget_behind(group);
  stream_calls_.forget(group);
  while (Operation* const ended_call = stream_calls_.take_ended()) pool_.give_back(ended_call);
  groups_.remove(group);
  return first;
}

std::uint32_t Context::begin_making() {
  const Lock held = lock();
  return groups_.generations().begin();
}

void Context::end_making(std::uint32_t brought) {
  const Lock held = lock();
  groups_.generations().end(brought);
  kept_.forget_past();
}

// ---- Operations ----

Operation* Context::acquire(Group& group) {
  const Lock held = lock();
  return pool_.take(group);
}

void Context::release(Operation* operation) {
  const Lock held = lock();
  pool_.give_back(operation);
}

// Gives the call its place in the communicator's order.
void Context::enter(Operation& operation, recorder::CallRecord& record, std::uint64_t digest) {
  number(operation, record, digest);
  operation.group->record->ledger.note(record);
}

void Context::queue(Operation& operation) {
  operation.state = Operation::State::queued;
  operation.group->window.push(&operation);
  activate(*operation.group);
}

// Sends the operation's frames, as far as they go without waiting.
void Context::push_routes(const Operation& operation) {
  const auto push = [this](const Flow& flow) {
    if (flow.route != nullptr && flow.route->has_work()) routes_.push_or_watch(*flow.route);
  };
  const Flows& flows = operation.group->flows;
  if (!operation.done.load(std::memory_order_relaxed)) {
    for (const Flow& flow : flows) push(flow);
  } else if (operation.kind == ANELLO_RECV && operation.status.source >= 0) {
    // The receive found its message here and returns credit, for which the sender may wait while this rank does
    // something else.
    if (const Flow* flow = flows.find(operation.status.source)) push(*flow);
  }
}

// A call that waits for no rank would not hear that its communicator has failed, nor would the next one. A driving
// thread hears it.
void Context::handle_news() {
  if (driver_.is_driving() || !job_->news.load(std::memory_order_acquire)) return;
  handle_events();
  // Takes in the frames that have come before any operation ends.
  for (int turn = 0; fates_.is_any() && turn < 4 && move(); ++turn) {
  }
}

Context::Entered Context::enter_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest) {
  const kernels::DefaultFloats floats;
  handle_news();
  ++activity_.unfinished;
  if (operation.group->error) {
    finish(operation, operation.group->error);
    return ended_well(operation);
  }
  enter(operation, record, digest);
  queue(operation);
  push_routes(operation);
  return ended_well(operation);
}

void Context::post(Operation& operation, recorder::CallRecord& record) {
  const Lock held = lock();
  post_held(operation, record);
}

void Context::post_held(Operation& operation, recorder::CallRecord& record) {
  const kernels::DefaultFloats floats;
  Group& group = *operation.group;
  handle_news();
  supervision_.request_gone_check();
  ++activity_.unfinished;
  // After the news, which may end all that is there.
  if (operation.is_in_stream()) StreamCalls::add(operation);
  if (group.error) {
    finish(operation, group.error);
    return;
  }
  const bool message = is_message(operation.kind);
  if (!message) {
    enter(operation, record, recorder::digest_of(record));
    if (record.refused != 0) {
      finish(operation, Error(static_cast<anello_result_t>(record.refused), "refused"));
      // Ranks that entered the call before need not wait for the pause after which they would ask.
      job_->compare_calls(group.id, record.sequence);
      return;
    }
  }
  with_memory(group, [&] {
    if (operation.shadow != nullptr && !fetch(operation)) return;
    if (!message) {
      queue(operation);
    } else if (operation.is_in_stream()) {
      operation.state = Operation::State::queued;  // until its stream comes to it
    } else if (shadows_.holds_up(operation)) {
      operation.state = Operation::State::queued;
    } else {
      messages_.post(operation);
    }
    push_routes(operation);
  });
  // The group may have failed before any list had the operation.
  if (group.error && !operation.done.load(std::memory_order_relaxed)) finish(operation, group.error);
  driver_.wake();  // it began its wait before this operation was there
}

void Context::tell_of_completion(int descriptor) {
  const Lock held = lock();
  bells_.add(descriptor);
}

void Context::tell_no_more(int descriptor) {
  const Lock held = lock();
  bells_.remove(descriptor);
}

int Context::completion_descriptor() {
  const Lock held = lock();
  return bells_.own();
}

void Context::progress_once() {
  const Lock held = lock();
  bells_.silence_own();
  if (driver_.is_driving()) return;  // another thread does
  const kernels::DefaultFloats floats;
  move();
  supervision_.tick_all();
  if (is_busy()) driver_.watch_in_background();
}

bool Context::probe_now(Operation& probe) {
  const Lock held = lock();
  if (probe.peer == ANELLO_RANK_NULL) {
    probe.status = {ANELLO_RANK_NULL, ANELLO_ANY_TAG, 0};
    return true;
  }
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
    if (fates_.is_any() || routes_.has_broken()) supervision_.tick({});
  }
  if (probe.group->error) throw probe.group->error;
  return messages_.found_by(probe);
}

Error Context::newest_error(const Group& group) {
  const Lock held = lock();
  const kernels::DefaultFloats floats;
  handle_news();
  return group.error;
}

std::vector<int> Context::lost_ranks(const Group& group) {
  const Lock held = lock();
  const kernels::DefaultFloats floats;
  // Perhaps no thread has waited since the group failed.
  if (job_->news.load(std::memory_order_acquire)) handle_events();
  return supervision_.lost_ranks(group);
}

std::vector<int> Context::suspected_ranks(const Group& group) {
  const Lock held = lock();
  return supervision_.suspected_ranks(group);
}

void Context::activate(Group& group) {
  while (group.active < kWindow) {
    Operation* next = group.window.front();
    while (next != nullptr && next->state != Operation::State::queued) next = OperationFifo::after(next);
    if (next == nullptr || !next->is_ready()) return;
    start(*next);
  }
}

// Begins the schedule of an operation that has come into the window, or the round that chooses one.
void Context::start(Operation& operation) {
  Group& group = *operation.group;
  ++group.active;
  with_memory(group, [&] {
    if (!operation.announces()) return begin(operation);
    operation.state = Operation::State::entering;
    operation.run.lanes.clear();  // they are an earlier call's: nothing can be received yet
    group.on_board.push(&operation);
    if (!operation.published) announcing_.choose_way(operation);  // otherwise the fast path has done so
    entering_.enter(operation);
  });
}

}  // namespace anello::executor
