// Context: ends operations and communicators.
#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "rank/context.h"
#include "executor/peer_work.h"
#include "executor/run.h"

#include <algorithm>

namespace anello::executor {

void Context::finish(Operation& operation, const Error& error) {
  Group& group = *operation.group;
  if (operation.function_threw && !error) {
    operation.function_threw = false;
    const std::string what =
        text("operation '", operation.custom->name, "' of the caller's own threw an exception on ");
    fail(group, Error(ANELLO_ERR_STATE, what + job_->describe(rank_), rank_), true);
    return;
  }
  const std::string aftermath = leave(operation, error);
  if (operation.shadow != nullptr && !error) {
    try {
      // The next ones need not wait for it.
      if (shadows_.deliver(operation)) return begin_next(group);
    } catch (const Error& of_device) {
      const Error why_not = job_->own_error(of_device);
      complete(operation, why_not);
      return fail(group, why_not, true);
    }
  }
  complete(operation, aftermath.empty() ? error : Error(error.code(), error.text() + aftermath, error.peer()));
  if (!error) begin_next(group);
}

void Context::begin_next(Group& group) {
  if (!group.window.empty() && !group.error) activate(group);
}

std::string Context::leave(Operation& operation, const Error& error) {
  Group& group = *operation.group;
  if (group.on_board.front() == &operation) {
    group.on_board.pop();
    if (!group.on_board.empty()) rounds_.list(group);
  }
  if (error) steps_.withdraw(operation);
  step_gets_.end(operation, bool(error));
  std::string aftermath;
  if (std::exchange(operation.exposed, false) && error) aftermath = keep_peers_out(operation);
  if (operation.shadow != nullptr && operation.shadow->hangs)
    aftermath += text("; device ", operation.shadow->device,
                      " has not ended what it does in the ranks' buffers, which may still change: do not use them");
  if (operation.state == Operation::State::active && !is_message(operation.kind)) {
    const bool oldest = group.is_oldest(operation);
    group.window.remove(&operation);
    --group.active;
    for (RunLane& lane : operation.run.lanes) kept_.give_back(lane);
    if (oldest && !error && !group.window.empty()) {
      // The next operation may use the credit that was reserved for the oldest.
      for (Flow& flow : group.flows) {
        if (!flow.steps.empty()) routes_.want_to_send(flow);
      }
    }
  }
  operation.run.ready.clear();
  if (operation.announces()) {
    steps_.forget(operation);
    entering_.forget(operation);
  }
  return aftermath;
}

void Context::complete(Operation& operation, const Error& error) {
  const bool is_in_stream = operation.is_in_stream();
  Group& group = *operation.group;
  // A message that its receiver refused, as it did not fit, may still be coming from its device.
  if (operation.shadow != nullptr && (error || operation.shadow->pieces.is_fetching())) shadows_.abandon(operation);
  operation.state = Operation::State::done;
  operation.error = error;
  note_end(operation);
  --activity_.unfinished;
  operation.done.store(true, std::memory_order_release);
  bells_.ring_all();
  driver_.note_completion();
  if (!is_in_stream) return;
  stream_calls_.end(operation);
  // A receive whose message is too long. Nobody waits for it, and would hear of it.
  if (error && !group.is_ending) fail(group, error, true);
}

void Context::fail_for_memory(Group& group) { fail(group, no_memory(*job_, kOperationNeeds), true); }

void Context::end_all(Group& group, const Error& error) {
  group.is_ending = true;
  if (group.board) group.board.stop_gets_of_peers();
  for (Flow& flow : group.flows) {
    if (flow.route != nullptr) flow.route->forget(group);
    while (flow.steps.pop() != nullptr) {
    }
    frames_.give_back_all(flow.early);
  }
  rounds_.forget_lines(group);
  // Before anything is taken back from peers: this rank's gets may store into the same memory.
  group.window.each([this](Operation& each) { step_gets_.close_all(each); });
  shadows_.end_all(group, error);
  stream_calls_.end_messages(group, error);
  messages_.end_all(group, error);
  while (Operation* operation = group.window.pop()) {
    steps_.withdraw(*operation);
    step_gets_.end(*operation, true);
    if (operation->state == Operation::State::active) {
      for (RunLane& lane : operation->run.lanes) kept_.give_back(lane);
    }
    operation->state = Operation::State::queued;  // it has left the window already
    finish(*operation, error);
  }
  group.active = 0;
}

void Context::fail(Group& group, const Error& error, bool tell) {
  if (group.error) return;
  supervision_.show_waits(group, control::Job::Look::closely);
  const std::string written = group.record.fail(error);
  group.error = written.empty() ? error : Error(error.code(), error.text() + written, error.peer());
  // This comes first: after the others see the failure on the board, they wait only so long for its account, and if a
  // peer is stopped at this rank's buffers, this rank may take a second to end its operations.
  if (tell) job_->fail_communicator(group.id, error);
  if (group.board) group.board.publish_failure(group.id, {error.code(), tell});
  log::info(rank_, "communicator failed: ", result_name(error.code()), ": ", group.error.text());
  end_all(group, group.error);
}

void Context::fail_all_with(int world, const Error& error, bool tell) {
  groups_.each([&](Group& group) {
    if (group.rank_of_world(world) >= 0) fail(group, error, tell);
  });
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
