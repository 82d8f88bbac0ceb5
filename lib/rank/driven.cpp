// Context: moves what can move, and waits for the rest.
#include "base/clock.h"
#include "rank/context.h"
#include "executor/run.h"

#include <algorithm>
#include <new>

namespace anello::executor {

bool Context::move() {
  try {
    const bool moved = move_all();
    supervision_.check_after_move(moved);
    return moved;
  } catch (const std::bad_alloc&) {
    // No one knows which group's work this interrupted, so all of them fail.
    groups_.each([this](Group& group) {
      group.polling_board = false;
      fail_for_memory(group);
    });
    return true;
  }
}

bool Context::move_all() {
  bool moved = false;
  if (job_->news.load(std::memory_order_acquire)) moved = handle_events();
  routes_.open_asked();
  for (progress::Source* const source : sources_) moved |= source->move();
  while (Operation* const ended = stream_calls_.take_ended()) pool_.give_back(ended);
  return moved;
}

bool Context::handle_events() {
  bool any = false;
  for (control::Event& event : job_->take_events()) {
    any = true;
    switch (event.kind) {
      case control::Event::Kind::lane:
        fates_.note_lane(event.peer);
        routes_.open(routes_.to(event.peer), std::move(event.rails));
        break;
      case control::Event::Kind::lost:
        fates_.note_loss(event.peer, event.error.text(), event.found_here, event.for_certain, now_ns());
        break;
      case control::Event::Kind::left: fates_.note_leaving(event.peer, now_ns()); break;
      case control::Event::Kind::region:
        routes_.answered(event.peer, event.region, std::move(event.memory));
        entering_.region_came();
        break;
      case control::Event::Kind::failed:
        if (Group* group = groups_.find(event.communicator)) {
          if (event.error.code() == ANELLO_ERR_PEER_LOST) {
            if (!group->reported_end) group->reported_end = event.error;
            fates_.note_trouble();
          } else {
            fail(*group, event.error, false);
          }
        } else if (!groups_.is_past(event.communicator)) {
          kept_.note_failed_early(event.communicator, event.error);
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

using Watched = Supervision::Watched;

// Waits until one of the watched operations is done.
class Context::WaitForAny final : public progress::Wait {
 public:
  WaitForAny(Context& context, Watched watched) : context_(context), watched_(watched) {}
  bool is_over() const override { return any_done(watched_); }
  void tick() override { context_.supervision_.tick(watched_); }

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
    // A rank that only tests has no other tick.
    constexpr unsigned kTestsPerTick = 16;
    if (fates_.is_any() || routes_.has_broken() || ++tests_ % kTestsPerTick == 0) supervision_.tick({});
    driver_.looked_once(activity_.unfinished > 0);
  }
  return operation.done.load(std::memory_order_relaxed);
}

bool Context::test_with_deadline(Operation& operation) {
  if (test(operation)) return true;
  const Lock held = lock();
  Operation* const watched = &operation;
  supervision_.tick({&watched, 1});  // a thread that drives checks only the deadlines of its own operations
  return operation.done.load(std::memory_order_relaxed);
}

void Context::leave_to_background() {
  const Lock held = lock();
  driver_.leave();
}

// ---- Functions that the driver calls ----

void Context::about_to_sleep() {
  for (progress::Source* const source : sources_) source->about_to_sleep();
}

bool Context::arm() {
  bool is_there = false;
  for (progress::Source* const source : sources_) is_there |= source->arm();
  return is_there;
}

int Context::longest_sleep_ms() const {
  constexpr int kWhilePeersAreGone = 20;
  int most = fates_.is_any() ? kWhilePeersAreGone : progress::Source::kAsLongAsOthers;
  for (const progress::Source* const source : sources_) most = std::min(most, source->longest_sleep_ms());
  return most;
}

long Context::poll_again_ns() const {
  long soonest = progress::Source::kNotByTime;
  for (const progress::Source* const source : sources_) soonest = std::min(soonest, source->poll_again_ns());
  return soonest;
}

std::size_t Context::rest_of_frames() const {
  return rounds_.is_listed() || steps_.has_work() ? 0 : routes_.rest_of_frames();
}

bool Context::is_busy() {
  routes_.count_unsent();
  return activity_.unfinished > 0 || stream_calls_.is_awaited();
}

}  // namespace anello::executor
