// Context: moving what can move, and waiting for what cannot.
#include "base/clock.h"
#include "executor/context.h"
#include "executor/pending_steps.h"
#include "executor/run.h"

#include <algorithm>
#include <new>

namespace anello::executor {

bool Context::move() {
  try {
    const bool moved = move_all();
    if (fates_.is_any() && (moved || gone_look_due_)) {
      gone_look_due_ = moved;
      if (!moved) check_gone(true);
    }
    return moved;
  } catch (const std::bad_alloc&) {
    // Whose it was that this left in the middle nobody can say any more.
    for (auto& [id, group] : groups_) {
      group->polling_board = false;
      fail(*group, no_memory(kOperationNeeds), true);
    }
    return true;
  }
}

bool Context::move_all() {
  bool moved = false;
  if (job_->news.load(std::memory_order_acquire)) moved = handle_events();
  routes_.open_asked();
  moved |= routes_.move();
  for (std::size_t i = 0; i < on_boards_.size();) {
    Group* group = on_boards_[i];
    const std::uint64_t before = group->movement;
    poll_board(*group);
    moved |= group->movement != before;
    if (i < on_boards_.size() && on_boards_[i] == group) ++i;
  }
  for (std::size_t i = 0; i < behind_.size();) {
    Group& group = *behind_[i];
    look_behind(group);
    if (group.board.is_behind() && !group.error) {
      ++i;
    } else {
      behind_.erase(behind_.begin() + std::ptrdiff_t(i));
    }
  }
  moved |= take_completed(*this);
  for (std::size_t i = 0; i < working_.size();) {
    Operation* operation = working_[i];
    moved |= work(*operation);
    if (i < working_.size() && working_[i] == operation) ++i;
  }
  moved |= move_transfers();
  return moved;
}

bool Context::handle_events() {
  bool any = false;
  for (control::Event& event : job_->take_events()) {
    any = true;
    switch (event.kind) {
      case control::Event::Kind::lane:
        fates_.hear_of_lane(event.peer);
        open_route(routes_.to(event.peer), std::move(event.fd));
        break;
      case control::Event::Kind::lost:
        fates_.hear_of_loss(event.peer, event.error.text(), event.found_here, event.for_certain, now_ns());
        break;
      case control::Event::Kind::left: fates_.hear_of_leaving(event.peer, now_ns()); break;
      case control::Event::Kind::region:
        if (transport::RemoteMemory* const memory = routes_.memory_of(event.peer); memory != nullptr)
          memory->answered(event.region, std::move(event.fd));
        for (Operation* waiting : std::vector<Operation*>(mapping_)) {
          if (waiting->state != Operation::State::entering) continue;
          with_memory(*waiting->group, [&] { map_announced(*waiting); });
        }
        break;
      case control::Event::Kind::failed:
        if (Group* group = find_group(event.communicator)) {
          if (event.error.code() == ANELLO_ERR_PEER_LOST) {
            if (!group->told_end) group->told_end = event.error;
            fates_.note_trouble();
          } else {
            fail(*group, event.error, false);
          }
        } else if (!is_past(event.communicator)) {
          note_failed_early(event.communicator, event.error);
        }
        break;
    }
  }
  return any;
}

// ---- Waiting ----

namespace {

bool any_done(std::span<Operation* const> operations) {
  return std::any_of(operations.begin(), operations.end(), [](const Operation* each) {
    return each != nullptr && each->done.load(std::memory_order_relaxed);
  });
}

}  // namespace

// Until one of them is done.
class Context::WaitForAny final : public progress::Wait {
 public:
  WaitForAny(Context& context, Watched watched) : context_(context), watched_(watched) {}
  bool is_over() const override { return any_done(watched_); }
  void tick() override { context_.tick(watched_); }

 private:
  Context& context_;
  const Watched watched_;
};

void Context::wait(Operation& operation) {
  if (!operation.done.load(std::memory_order_acquire)) {
    Operation* const watched = &operation;
    WaitForAny wait(*this, {&watched, 1});
    Lock held = lock();
    driver_.wait(held, wait);
  }
  if (operation.error) job_->finish_telling();
}

void Context::wait_any(Operation* const* operations, std::size_t count) {
  const Watched watched(operations, count);
  if (std::all_of(watched.begin(), watched.end(), [](const Operation* each) { return each == nullptr; })) return;
  {
    WaitForAny wait(*this, watched);
    Lock held = lock();
    driver_.wait(held, wait);
  }
  for (const Operation* each : watched) {
    if (each != nullptr && each->done.load(std::memory_order_acquire) && each->error) return job_->finish_telling();
  }
}

bool Context::test(Operation& operation) {
  if (!operation.done.load(std::memory_order_acquire) && !test_once(operation)) return false;
  if (operation.error) job_->finish_telling();
  return true;
}

bool Context::test_once(Operation& operation) {
  const Lock held = lock();
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
    // A rank that only ever tests looks for news here alone.
    constexpr unsigned kTestsPerTick = 16;
    if (fates_.is_any() || routes_.has_broken() || ++tests_ % kTestsPerTick == 0) tick({});
    driver_.looked_once(unfinished_ > 0);
  }
  return operation.done.load(std::memory_order_relaxed);
}

bool Context::test_with_deadline(Operation& operation) {
  if (test(operation)) return true;
  const Lock held = lock();
  Operation* const watched = &operation;
  tick({&watched, 1});  // also beside a thread that drives: it looks at the deadlines of what it waits for itself
  return operation.done.load(std::memory_order_relaxed);
}

void Context::leave_to_background() {
  const Lock held = lock();
  driver_.leave();
}

// ---- What the driver asks ----

bool Context::waits_elsewhere() const {
  return !on_boards_.empty() && std::all_of(on_boards_.begin(), on_boards_.end(),
                                            [](const Group* each) { return each->board.awaits_elsewhere(); });
}

std::size_t Context::rest_of_frames() const {
  return on_boards_.empty() && working_.empty() ? routes_.rest_of_frames() : 0;
}

void Context::count_handled(std::size_t bytes) {
  if (const memory::Arena& arena = job_->arena()) {
    std::atomic<std::uint64_t>& handled = arena.inbox(arena.index()).handled;
    handled.store(handled.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
}

void Context::about_to_sleep() {
  for (Group* group : on_boards_) group->board.about_to_sleep();
}

// ---- Lanes that still have something to send ----

// An answer, credit, or the rest of a frame may have found its lane full, and the operation that it is of is done. Its
// peer may wait for it while this rank is about something else, so the lane counts as an operation under way until it
// has left.
void Context::count_unsent(Route& way) {
  if (way.is_counted || way.drained()) return;
  way.is_counted = true;
  ++unfinished_;
}

void Context::uncount_unsent(Route& way) {
  if (std::exchange(way.is_counted, false)) --unfinished_;
}

bool Context::is_busy() {
  for (std::size_t i = 0; unfinished_ == 0 && i < routes_.open_ones().size(); ++i)
    count_unsent(*routes_.open_ones()[i]);
  return unfinished_ > 0;
}

// At the end of a call, of a lane that has work.
void Context::push_or_watch(Route& way) {
  way.push();
  if (unfinished_ > 0 || !way.has_work()) return;
  const kernels::DefaultFloats floats;
  driver_.watch_soon();
}

}  // namespace anello::executor
