#include "executor/pending_steps.h"

#include "executor/context.h"
#include "executor/exchange.h"
#include "executor/peer_work.h"
#include "executor/run.h"

namespace anello::executor {
namespace {

void go_on(Context& context, const Completed& completed) {
  Operation& operation = *completed.ticket.operation;
  const std::uint32_t index = completed.ticket.index;
  switch (completed.ticket.part) {
    case Ticket::Part::step: return step_done(operation, index);
    case Ticket::Part::piece: {
      std::uint32_t step = 0;
      const Worked worked = piece_done(operation, completed.failure, &step);
      context.note_worked(operation, worked, step);
      return;
    }
    case Ticket::Part::arrival: {
      RunLane& lane = operation.run.lanes[index];
      if (arrival_done(lane)) resume_early(lane);
      return;
    }
    case Ticket::Part::lines: return lines_taken(operation);
  }
}

}  // namespace

bool issue(Operation& operation, Ticket::Part part, std::uint32_t index, const ResolvedStep& step) {
  if (operation.group->context.engine().issue({&operation, part, index}, step)) return true;
  ++operation.run.pending;
  return false;
}

bool take_completed(Context& context) {
  bool any = false;
  while (const std::optional<Completed> completed = context.engine().take()) {
    any = true;
    Group& group = *completed->ticket.operation->group;
    --completed->ticket.operation->run.pending;
    context.with_memory(group, [&] { go_on(context, *completed); });
  }
  return any;
}

void withdraw(Operation& operation) {
  if (operation.run.pending == 0) return;
  operation.group->context.engine().withdraw(operation);
  operation.run.pending = 0;
  if (operation.peer_work.pending == 0) return;
  operation.peer_work.pending = 0;
  if (operation.exposed) operation.group->board.end_touching();
}

}  // namespace anello::executor
