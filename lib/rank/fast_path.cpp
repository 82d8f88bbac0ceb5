// Context: blocking calls that need nothing but the board, and memory that all reach, from start to end under one hold
// of the lock, while the others come at once. What takes longer goes on the general path from where it is.
#include "base/processor.h"
#include "rank/context.h"
#include "executor/exchange.h"
#include "executor/run.h"

namespace anello::executor {

// Looks for the lines of what has been published, for as long as it is worth to wait for them here.
[[gnu::always_inline]] inline Board::Seen Context::lines_seen(Board& board, Round round, std::uint64_t digest) {
  int turns = driver_.spins();
  int turn = 0;
  while (true) {
    const Board::Seen seen = board.look(round, digest);
    if (seen == Board::Seen::complete && turn > driver_.spins()) driver_.board_patience().rewarded();
    if (seen != Board::Seen::waiting || activity_.unfinished > 0) return seen;
    if (turn == turns && turn == driver_.spins() && board.awaits_elsewhere())
      turns += driver_.board_patience().turns(board.is_first_of_two());
    if (turn++ == turns) break;
    // What this rank waits for may be what another thread of it is about to do.
    if (turn > driver_.spins() && driver_.is_lock_wanted()) break;
    // Also in the first turns: a line that is asked for without a break takes longer to come.
    pause_processor();
  }
  driver_.note_spun();
  return Board::Seen::waiting;
}

Context::Entered Context::exchange_now(Operation& operation, control::CallRecord& record, std::uint64_t digest) {
  Group& group = *operation.group;
  if (!steps_.is_immediate()) return Entered::not_begun;
  if (!group.idle() || group.error || job_->news.load(std::memory_order_relaxed)) return Entered::not_begun;
  const Exchange& exchange = operation.exchange;
  Board& board = group.board;
  if (board.room(exchange.bytes) != Board::Seen::complete && !room_comes(board, exchange.bytes))
    return Entered::not_begun;
  number(operation, record, digest);
  board.publish(LineKind::exchange, exchange.from, exchange.bytes, operation.digest, operation.sequence,
                exchange.needs);
  group.ledger.note(record);  // while the line is on its way
  if (lines_seen(board, Round::exchange, operation.digest) == Board::Seen::complete) {
    take_lines(group, operation);
    agreement_.leave_exchange(group);
    ++group.movement;
    return Entered::complete;
  }
  operation.published = true;
  ++activity_.unfinished;
  queue(operation);
  return Entered::under_way;
}

Context::Entered Context::walk_now(Operation& operation, control::CallRecord& record, std::uint64_t digest) {
  Group& group = *operation.group;
  if (!steps_.is_immediate()) return Entered::not_begun;
  if (!group.idle() || group.error || activity_.unfinished > 0 || job_->news.load(std::memory_order_relaxed))
    return Entered::not_begun;
  operation.round = Round::announce;
  if (group.board.is_behind() && !room_comes(group.board, agreement_.line_bytes(operation))) return Entered::not_begun;
  const kernels::DefaultFloats floats;
  // What could fail comes before others may be at this rank's buffers. What is resolved has been through it.
  if (operation.resolved.agreement != 0 && operation.resolved.empty()) take_memory(operation);
  number(operation, record, digest);
  agreement_.choose_way(operation);
  const bool again = agreement_.enters_again(operation);
  if (!again) agreement_.publish_line(operation);
  group.ledger.note(record);
  std::uint32_t at = !lines_come(operation) ? Agreement::kNotTold
                     : again                ? agreement_.told_again(operation)
                                            : agreement_.told_by_lines(operation);
  // A process's memory that is read by system call may turn out not to be there, which ends an operation that all know
  // of.
  if (at == Agreement::kNotTold || operation.reach == schedule::Reach::read) {
    operation.published = true;
    ++activity_.unfinished;
    queue(operation);
    return entered(operation);
  }
  // So much in one go, as in work().
  std::size_t left = 1024 * 1024;
  const std::vector<schedule::Step>& steps = operation.plan->schedule.steps;
  const auto leave_board = [&] {
    group.board.finish();
    operation.round = Round::none;
    ++group.movement;
  };
  leave_board();
  ++group.reached[std::size_t(operation.reach)];
  if (!operation.plan->schedule.lanes.empty()) return begin_by_messages(operation);
  while (!operation.published && at < steps.size() && (at = advance(operation, at, &left)) < steps.size() &&
         steps[at].kind == schedule::Kind::barrier && left > 0) {
    operation.round = Round::barrier;
    group.board.publish(LineKind::barrier, nullptr, 0, operation.digest, operation.sequence);
    operation.published = !lines_come(operation);
    if (operation.published) break;
    leave_board();
    ++at;
  }
  if (at == steps.size()) {
    operation.staged.deliver();
    operation.exposed = false;
    operation.staged_early = false;
    return Entered::complete;
  }
  put_in_window(operation);
  if (operation.plan->has_barrier) group.on_board.push(&operation);
  begin(operation, at);
  return entered(operation);
}

void Context::put_in_window(Operation& operation) {
  ++activity_.unfinished;
  operation.group->window.push(&operation);
  ++operation.group->active;
}

// What goes by messages, as its lines have told.
[[gnu::noinline]] Context::Entered Context::begin_by_messages(Operation& operation) {
  Group& group = *operation.group;
  if (group.board.is_behind()) agreement_.note_behind(group);
  put_in_window(operation);
  begin(operation);
  push_routes(operation);
  return ended_well(operation);
}

// Whether the board has room for the next line, or will have while it is worth to wait for it here.
bool Context::room_comes(Board& board, std::size_t bytes) const {
  for (int turn = 0; turn <= driver_.spins(); ++turn) {
    const Board::Seen seen = board.room(bytes);
    if (seen != Board::Seen::waiting) return seen == Board::Seen::complete;
    pause_processor();
  }
  return false;
}

// Whether all lines of what has been published are there, or come.
bool Context::lines_come(const Operation& operation) {
  return lines_seen(operation.group->board, operation.round, operation.digest) == Board::Seen::complete;
}

// What became of an operation that went on the general path.
Context::Entered Context::entered(Operation& operation) {
  for (int turn = 0; turn <= driver_.spins() && operation.round != Round::none && !driver_.has_spun(); ++turn) {
    pause_processor();
    agreement_.poll(*operation.group);
  }
  return ended_well(operation);
}

Context::Entered Context::ended_well(Operation& operation) {
  if (!operation.done.load(std::memory_order_relaxed) || operation.error) return Entered::under_way;
  OperationPool::renew(operation);
  return Entered::complete;
}

}  // namespace anello::executor
