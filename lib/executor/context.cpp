#include "executor/context.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "control/occupancy.h"
#include "executor/exchange.h"
#include "executor/pending_steps.h"
#include "executor/run.h"

#include <algorithm>

#include <unistd.h>

namespace anello::executor {

Context::Context(std::unique_ptr<control::Job> job, std::vector<AvailableTransport> transports, long spin_us,
                 memory::ReadPolicy::Wish staging, std::unique_ptr<Engine> engine)
    : job_(std::move(job)),
      rank_(job_->rank()),
      driver_(*job_, *this, spin_us),
      sharing_(control::occupancy_of(job_->members(), rank_).ranks_per_processor()),
      staging_(staging),
      engine_(std::move(engine)),
      is_immediate_(engine_->is_immediate()),
      routes_(*this, *job_, driver_.descriptors(), std::move(transports)),
      fates_(job_->size()) {}

Context::~Context() {
  driver_.close();
  {
    const Lock held = lock();
    routes_.drain();  // what was sent still arrives
  }
  routes_.close();  // before the job: endpoints look at the arena
  groups_.clear();
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
    group = std::make_unique<Group>(*this, id, ranks, static_cast<int>(me), std::move(board), first_sequence);
    // The first call that has to wait allocates nothing, either.
    on_boards_.reserve(groups_.size() + 1);
    working_.reserve(groups_.size() + 1);
    behind_.reserve(groups_.size() + 1);
    // First of all: what ends it from here on is told to the others.
    job_->add_communicator(id, std::move(ranks), &group->ledger);
    try {
      groups_[id] = group.get();
    } catch (const std::bad_alloc&) {
      job_->remove_communicator(id);
      throw;
    }
    generations_.made(id);
    last_group_ = group.get();
    group->by_address = group->size() > 1;
    for (int peer = 0; peer < group->size(); ++peer) {
      if (peer != group->rank && !shares_addresses(*group, peer)) group->by_address = false;
    }
    with_memory(*group, [&] { deliver_strays(*group); });
    const auto failed = failed_early_.find(id);
    if (failed != failed_early_.end()) {
      if (!group->error) group->error = failed->second;
      failed_early_.erase(failed);
    }
  }
  return group;
}

// A rank whose last call returned early may hold a frame that shows what the others called instead: the verdict is
// worth a moment, since nobody will ask this rank again.
void Context::hear_verdict(Group& group) {
  const Deadline limit = Deadline::in_ms(1000);
  Lock held = lock();
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
  }
  if (group.board) look_behind(group);
  look_at_early(group);
  while (group.suspected && !group.error && !limit.passed()) {
    held.unlock();
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
    held.lock();
    if (job_->news.load(std::memory_order_acquire)) handle_events();
    if (group.board) look_behind(group);
  }
}

Error Context::remove_group(Group& group) {
  hear_verdict(group);
  job_->remove_communicator(group.id);
  const Lock held = lock();
  if (job_->news.load(std::memory_order_acquire)) handle_events();
  if (group.told_end && !group.error) fail(group, group.told_end, false);
  const Error first = group.error;
  const Error ended(ANELLO_ERR_STATE, "the communicator was destroyed");
  end_all(group, first ? first : ended);
  for (int peer = 0; peer < group.size(); ++peer) {
    const Route* const way = routes_.find(group.ranks[std::size_t(peer)]);
    // In the lane, behind all that was sent: the peer then knows that no more comes.
    if (way == nullptr || way->state() != Route::State::open || way->endpoint()->failure()) continue;
    transport::FrameHeader leave;
    leave.kind = static_cast<std::uint16_t>(FrameKind::leave);
    leave.communicator = group.id;
    Flow& flow = group.flows.to(peer);
    flow.notes.push_back(leave);
    flow.route->list(flow);
  }
  // The notes leave now or, on a full lane, are given up with the group: the service threads tell the same.
  const Deadline limit = Deadline::in_ms(100);
  for (Flow& flow : group.flows) {
    if (flow.route == nullptr) continue;
    while (flow.route->has_notes(flow) && flow.route->state() == Route::State::open && !limit.passed()) {
      if (!flow.route->push()) sched_yield();
    }
    flow.route->forget_notes(group);
  }
  if (!group.error) group.error = ended;
  if (last_group_ == &group) last_group_ = nullptr;
  behind_.erase(std::remove(behind_.begin(), behind_.end(), &group), behind_.end());
  groups_.erase(group.id);
  return first;
}

std::uint32_t Context::begin_making() {
  const Lock held = lock();
  return generations_.begin();
}

void Context::end_making(std::uint32_t brought) {
  const Lock held = lock();
  generations_.end(brought);
  forget_past();
}

Group* Context::find_group(std::uint64_t id) {
  if (last_group_ != nullptr && last_group_->id == id) return last_group_;
  const auto found = groups_.find(id);
  if (found == groups_.end()) return nullptr;
  last_group_ = found->second;
  return last_group_;
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
void Context::enter(Operation& operation, control::CallRecord& record, std::uint64_t digest) {
  number(operation, record, digest);
  operation.group->ledger.note(record);
}

void Context::queue(Operation& operation) {
  operation.state = Operation::State::queued;
  operation.group->window.push(&operation);
  activate(*operation.group);
}

// What was begun, as far as it goes without waiting.
void Context::push_routes(const Operation& operation) {
  const auto push = [this](const Flow& flow) {
    if (flow.route != nullptr && flow.route->has_work()) push_or_watch(*flow.route);
  };
  const Flows& flows = operation.group->flows;
  if (!operation.done.load(std::memory_order_relaxed)) {
    for (const Flow& flow : flows) push(flow);
  } else if (operation.kind == ANELLO_RECV && operation.status.source >= 0) {
    // It found its message here and gives credit back, for which the sender may wait while this rank is about something
    // else.
    if (const Flow* flow = flows.find(operation.status.source)) push(*flow);
  }
}

// A call that waits for nobody would not hear that its communicator has failed, nor would the one after it. Who drives
// hears it.
void Context::hear_news() {
  if (driver_.is_driving() || !job_->news.load(std::memory_order_acquire)) return;
  handle_events();
  // What has come is taken in before it ends.
  for (int turn = 0; fates_.is_any() && turn < 4 && move(); ++turn) {
  }
}

Context::Entered Context::enter_now(Operation& operation, control::CallRecord& record, std::uint64_t digest) {
  const kernels::DefaultFloats floats;
  hear_news();
  ++unfinished_;
  if (operation.group->error) {
    finish(operation, operation.group->error);
    return ended_well(operation);
  }
  enter(operation, record, digest);
  queue(operation);
  push_routes(operation);
  return ended_well(operation);
}

void Context::post(Operation& operation, control::CallRecord& record) {
  const Lock held = lock();
  const kernels::DefaultFloats floats;
  Group& group = *operation.group;
  hear_news();
  gone_look_due_ = true;
  ++unfinished_;
  if (group.error) {
    finish(operation, group.error);
    return;
  }
  const bool message = is_message(operation.kind);
  if (!message) {
    enter(operation, record, control::digest_of(record));
    if (record.refused != 0) {
      finish(operation, Error(static_cast<anello_result_t>(record.refused), "refused"));
      // Those who came to it before need not wait for the pause after which they would ask.
      job_->compare_calls(group.id, record.sequence);
      return;
    }
  }
  with_memory(group, [&] {
    message ? post_message(operation) : queue(operation);
    push_routes(operation);
  });
  // If nothing had it yet that could end it.
  if (group.error && !operation.done.load(std::memory_order_relaxed)) finish(operation, group.error);
  driver_.wake();  // it decided what to wait for before this operation was there
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
  if (driver_.is_driving()) return;  // somebody else does
  const kernels::DefaultFloats floats;
  move();
  if (now_ns() >= next_tick_ns_) {
    check_deadlines();
    tick({});
  }
  if (is_busy()) driver_.watch_in_background();
}

void Context::activate(Group& group) {
  while (group.active < kWindow) {
    Operation* next = group.window.front();
    while (next != nullptr && next->state != Operation::State::queued) next = OperationFifo::after(next);
    if (next == nullptr) return;
    start(*next);
  }
}

// Gives an operation that has come into the window its schedule, or what it needs to choose one.
void Context::start(Operation& operation) {
  Group& group = *operation.group;
  ++group.active;
  with_memory(group, [&] {
    if (!operation.announces()) return begin(operation);
    operation.state = Operation::State::entering;
    operation.run.lanes.clear();  // of an earlier call: nothing can be received yet
    group.on_board.push(&operation);
    if (!operation.published) choose_way(operation);  // else the fast path has
    begin_round(operation, Round::announce);
  });
}

Error Context::no_memory(const std::string& what) const {
  return Error(ANELLO_ERR_RESOURCE, text("no memory for ", what, " on ", job_->describe(rank_)), rank_);
}

void Context::finish(Operation& operation, const Error& error) {
  Group& group = *operation.group;
  if (operation.function_threw && !error) {
    operation.function_threw = false;
    const std::string what =
        text("operation '", operation.custom->name, "' of the caller's own threw an exception on ");
    fail(group, Error(ANELLO_ERR_STATE, what + job_->describe(rank_), rank_), true);
    return;
  }
  if (!error) operation.staged.deliver();
  if (group.on_board.front() == &operation) {
    group.on_board.pop();
    if (!group.on_board.empty()) list_board(group);
  }
  if (error) withdraw(operation);
  std::string aftermath;
  if (std::exchange(operation.exposed, false) && error) aftermath = keep_peers_out(operation);
  if (operation.state == Operation::State::active && !is_message(operation.kind)) {
    const bool oldest = group.is_oldest(operation);
    group.window.remove(&operation);
    --group.active;
    for (RunLane& lane : operation.run.lanes) give_back_frames(lane);
    if (oldest && !error && !group.window.empty()) {
      // The next one may use the credit that was kept for the oldest.
      for (Flow& flow : group.flows) {
        if (!flow.steps.empty()) want_to_send(flow);
      }
    }
  }
  operation.state = Operation::State::done;
  operation.error = aftermath.empty() ? error : Error(error.code(), error.text() + aftermath, error.peer());
  operation.run.ready.clear();
  if (operation.announces()) {
    for (std::vector<Operation*>* list : {&working_, &mapping_}) {
      list->erase(std::remove(list->begin(), list->end(), &operation), list->end());
    }
  }
  --unfinished_;
  operation.done.store(true, std::memory_order_release);
  bells_.ring_all();
  driver_.note_completion();
  if (!error && !group.window.empty() && !group.error) activate(group);
}

bool Context::work(Operation& operation) {
  // So much in one go, before others get their turn.
  constexpr std::size_t kTurnBytes = 1024 * 1024;
  std::uint32_t step = 0;
  const Worked worked = work_at_peers(operation, kTurnBytes, &step);
  return note_worked(operation, worked, step);
}

bool Context::note_worked(Operation& operation, Worked worked, std::uint32_t step) {
  if (operation.state != Operation::State::active) return true;  // it has failed
  const PeerWork& left = operation.peer_work;
  const bool over = left.step == PeerWork::kNoStep && left.next.empty();
  const auto listed = std::find(working_.begin(), working_.end(), &operation);
  if (over && listed != working_.end()) working_.erase(listed);
  if (!over && listed == working_.end()) working_.push_back(&operation);
  if (worked == Worked::step) step_done(operation, step);
  return worked != Worked::nothing;
}

void Context::give_back_frames(RunLane& lane) {
  frames_.give_back_all(lane.early);
  if (lane.applied != nullptr) frames_.give_back(std::exchange(lane.applied, nullptr));
}

// ---- Routes ----

void Context::set_up(Flow& flow) {
  const int world = flow.group->ranks[std::size_t(flow.peer)];
  if (world == rank_) return;
  flow.route = &routes_.to(world);
  flow.least_got = least_got(*flow.group, flow.peer);
  flow.most_eager = most_eager(*flow.group, flow.peer);
  if (flow.least_got != SIZE_MAX) flow.reading = std::make_unique<memory::ReadPolicy>();
}

void Context::want_to_send(Flow& flow) {
  if (flow.route == nullptr) return;
  Route& way = *flow.route;
  if (fates_.takes_nothing(way.peer())) return;
  way.list(flow);
  if (way.state() == Route::State::closed) routes_.begin_opening(way);
}

void Context::open_route(Route& way, UniqueFd socket) {
  try {
    routes_.open(way, std::move(socket));
  } catch (const Error& error) {
    fail_all_with(way.peer(), error, true);
  } catch (const std::bad_alloc&) {
    fail_all_with(way.peer(), no_memory(kOperationNeeds), true);
  }
}

}  // namespace anello::executor
