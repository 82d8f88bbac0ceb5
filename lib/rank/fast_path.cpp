// Context: runs blocking calls that need only the board, and memory that all reach, from start to end under one hold of
// the lock, while the others come at once. Anything slower falls back to the general path from where it stopped.
#include "base/processor.h"
#include "rank/context.h"
#include "executor/exchange.h"
#include "executor/run.h"

namespace anello::executor {

// Looks for the lines of the published round, for as long as a wait for them pays here.
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
    // The awaited lines may depend on a call that another thread of this rank is about to make.
    if (turn > driver_.spins() && driver_.is_lock_wanted()) break;
    // It pauses in the first turns, too: a line that is polled without a break takes longer to come.
    pause_processor();
  }
  driver_.note_spun();
  return Board::Seen::waiting;
}

Context::Entered Context::exchange_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest) {
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
  group.record->ledger.note(record);  // while the line is on its way
  if (lines_seen(board, Round::exchange, operation.digest) == Board::Seen::complete) {
    take_lines(group, operation);
    rounds_.leave_exchange(group);
    ++group.movement;
    group.record->ledger.all_ended();
    return Entered::complete;
  }
  operation.published = true;
  ++activity_.unfinished;
  queue(operation);
  return Entered::under_way;
}

Context::Entered Context::walk_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest) {
  Group& group = *operation.group;
  if (!steps_.is_immediate()) return Entered::not_begun;
  if (!group.idle() || group.error || activity_.unfinished > 0 || job_->news.load(std::memory_order_relaxed))
    return Entered::not_begun;
  operation.round = Round::announce;
  if (group.board.is_behind() && !room_comes(group.board, rounds_.line_bytes(operation))) return Entered::not_begun;
  const kernels::DefaultFloats floats;
  // This could fail, so it comes before others may be at this rank's buffers. A resolved plan has its memory already.
  if (operation.resolved.agreement != 0 && operation.resolved.empty()) take_memory(operation);
  number(operation, record, digest);
  announcing_.choose_way(operation);
  const bool again = announcing_.enters_again(operation);
  if (!again) rounds_.publish_line(operation);
  group.record->ledger.note(record);
  std::uint32_t at = !lines_come(operation) ? Announcing::kUndecided
                     : again                ? announcing_.decide_as_before(operation)
                                            : announcing_.decide_by_lines(operation);
  // A read of a process's memory may fail, and a failure must find the operation in the window.
  if (at == Announcing::kUndecided || operation.reach == schedule::Reach::read) {
    operation.published = true;
    ++activity_.unfinished;
    queue(operation);
    return entered(operation);
  }
  // The most bytes in one go, as in Steps::work.
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
    group.record->ledger.all_ended();
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

// Begins a call that goes by messages, as its lines have told.
[[gnu::noinline]] Context::Entered Context::begin_by_messages(Operation& operation) {
  Group& group = *operation.group;
  if (group.board.is_behind()) rounds_.note_behind(group);
  put_in_window(operation);
  begin(operation);
  push_routes(operation);
  return ended_well(operation);
}

// Whether the board has room for the next line, or gets it while a wait pays here.
bool Context::room_comes(Board& board, std::size_t bytes) const {
  for (int turn = 0; turn <= driver_.spins(); ++turn) {
    const Board::Seen seen = board.room(bytes);
    if (seen != Board::Seen::waiting) return seen == Board::Seen::complete;
    pause_processor();
  }
  return false;
}

// Whether all lines of the published round are there, or come while a wait pays here.
bool Context::lines_come(const Operation& operation) {
  return lines_seen(operation.group->board, operation.round, operation.digest) == Board::Seen::complete;
}

// Gives an operation on the general path a short wait, and returns its outcome.
Context::Entered Context::entered(Operation& operation) {
  for (int turn = 0; turn <= driver_.spins() && operation.round != Round::none && !driver_.has_spun(); ++turn) {
    pause_processor();
    rounds_.poll(*operation.group);
  }
  return ended_well(operation);
}

Context::Entered Context::ended_well(Operation& operation) {
  if (!operation.done.load(std::memory_order_relaxed) || operation.error) return Entered::under_way;
  OperationPool::renew(operation);
  return Entered::complete;
}

}  // namespace anello::executor
