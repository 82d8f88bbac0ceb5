#include "executor/steps.h"

#include "executor/activity.h"
#include "executor/exchange.h"
#include "executor/outcomes.h"
#include "executor/run.h"

#include <algorithm>

namespace anello::executor {

Steps::Steps(Parts& parts, std::unique_ptr<Engine> engine)
    : parts_(parts),
      engine_(std::move(engine)),
      device_engine_(make_device_engine()),
      is_immediate_(engine_->is_immediate()) {}

bool Steps::issue(Operation& operation, Ticket::Part part, std::uint32_t index, const ResolvedStep& step) {
  if (engine_of(operation).issue({&operation, part, index}, step)) return true;
  ++operation.run.pending;
  return false;
}

void Steps::go_on(const Completed& completed) {
  Operation& operation = *completed.ticket.operation;
  const std::uint32_t index = completed.ticket.index;
  switch (completed.ticket.part) {
    case Ticket::Part::step: return step_done(operation, index);
    case Ticket::Part::piece: {
      std::uint32_t step = 0;
      const Worked worked = piece_done(operation, completed.failure, &step);
      note_worked(operation, worked, step);
      return;
    }
    case Ticket::Part::arrival: {
      RunLane& lane = operation.run.lanes[index];
      if (arrival_done(lane)) resume_early(lane);
      return;
    }
    case Ticket::Part::lines: return lines_taken(operation);
    case Ticket::Part::delivery: return parts_.outcomes.finish(operation);
  }
}

// The device has failed, or refused the step.
void Steps::end_by_device(const Completed& completed) {
  Operation& operation = *completed.ticket.operation;
  ++operation.run.pending;  // for withdraw()
  parts_.outcomes.fail(*operation.group, parts_.job.own_error(completed.error), true);
}

bool Steps::take_completed(Engine& engine) {
  bool any = false;
  while (const std::optional<Completed> completed = engine.take()) {
    any = true;
    Group& group = *completed->ticket.operation->group;
    --completed->ticket.operation->run.pending;
    parts_.outcomes.with_memory(group, [&] { completed->error ? end_by_device(*completed) : go_on(*completed); });
  }
  return any;
}

bool Steps::work(Operation& operation) {
  // The most bytes in one go, before other work gets its turn.
  constexpr std::size_t kTurnBytes = 1024 * 1024;
  std::uint32_t step = 0;
  const Worked worked = work_at_peers(operation, kTurnBytes, &step);
  return note_worked(operation, worked, step);
}

// Acts on the outcome of work, or of a pending piece. step: the step that is done, if a whole one is.
bool Steps::note_worked(Operation& operation, Worked worked, std::uint32_t step) {
  if (operation.state != Operation::State::active) return true;  // it has failed
  const PeerWork& left = operation.peer_work;
  const bool over = left.step == PeerWork::kNoStep && left.next.empty();
  const auto listed = std::find(working_.begin(), working_.end(), &operation);
  if (over && listed != working_.end()) working_.erase(listed);
  if (!over && listed == working_.end()) working_.push_back(&operation);
  if (worked == Worked::step) step_done(operation, step);
  return worked != Worked::nothing;
}

bool Steps::move() {
  bool moved = take_completed(*engine_);
  if (device_engine_->has_pending()) moved |= take_completed(*device_engine_);
  for (std::size_t i = 0; i < working_.size();) {
    Operation* const operation = working_[i];
    moved |= work(*operation);
    if (i < working_.size() && working_[i] == operation) ++i;
  }
  return moved;
}

void Steps::withdraw(Operation& operation) {
  if (operation.run.pending == 0) return;
  const bool hangs = !engine_of(operation).withdraw(operation);
  operation.run.pending = 0;
  // Its peers hear that it is at their buffers still.
  if (hangs) {
    operation.shadow->hangs = true;
    operation.shadow->scratch.abandon();
    return;
  }
  if (operation.peer_work.pending == 0) return;
  operation.peer_work.pending = 0;
  if (operation.exposed) operation.group->board.end_touching();
}

void Steps::forget(Operation& operation) { std::erase(working_, &operation); }

}  // namespace anello::executor
