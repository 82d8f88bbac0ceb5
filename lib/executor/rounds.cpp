#include "executor/rounds.h"

#include "control/job.h"
#include "executor/announcing.h"
#include "executor/entering.h"
#include "executor/exchange.h"
#include "executor/outcomes.h"
#include "executor/run.h"
#include "executor/steps.h"
#include "executor/supervision.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::executor {
namespace {

using schedule::Reach;

ResolvedStep take_lines_step() {
  ResolvedStep step;
  step.action = Action::take_lines;
  return step;
}

}  // namespace

Rounds::Rounds(Parts& parts) : parts_(parts) {}

void Rounds::begin(Operation& operation, Round round) {
  operation.round = round;
  poll(*operation.group);
}

void Rounds::poll(Group& group) {
  if (group.polling_board) return;  // the loop below made this call, and goes on
  group.polling_board = true;
  Operation* operation;
  while ((operation = group.on_board.front()) != nullptr && operation->round != Round::none) {
    Board::Seen seen = Board::Seen::complete;
    if (!operation->published && (seen = group.board.room(line_bytes(*operation))) == Board::Seen::complete) {
      operation->published = true;
      publish_line(*operation);
    }
    if (operation->published) seen = group.board.look(operation->round, operation->digest);
    if (seen != Board::Seen::complete) {
      if (seen == Board::Seen::mismatch) parts_.supervision.suspect_lines(group, *operation);
      list(group);
      group.polling_board = false;
      return;
    }
    operation->published = false;
    ++group.movement;
    parts_.outcomes.with_memory(group, [&] { lines_came(*operation, std::exchange(operation->round, Round::none)); });
  }
  group.polling_board = false;
  std::erase(on_boards_, &group);
}

void Rounds::list(Group& group) {
  if (std::find(on_boards_.begin(), on_boards_.end(), &group) == on_boards_.end()) on_boards_.push_back(&group);
}

std::size_t Rounds::line_bytes(const Operation& operation) {
  const auto payload = [&](const Plan& plan) { return plan.schedule.steps[0].from.count * operation.element_bytes; };
  switch (operation.round) {
    case Round::exchange: return payload(*operation.plan);
    case Round::announce:
      return may_publish_payload(operation) ? payload(*operation.plans->at(Reach::none)) : sizeof(Announced);
    case Round::agree: return sizeof(Lacking);
    default: return memory::kInlineBytes;
  }
}

void Rounds::publish_line(Operation& operation) {
  Group& group = *operation.group;
  const auto publish = [&](const void* payload, std::size_t bytes, int needs = Board::kAll) {
    group.board.publish(kind_of(operation.round), static_cast<const std::byte*>(payload), bytes, operation.digest,
                        operation.sequence, needs);
  };
  switch (operation.round) {
    case Round::exchange: {
      const schedule::Step& step = operation.plan->schedule.steps[0];
      return publish(operation.at(step.from), line_bytes(operation), lines_needed(group, operation));
    }
    case Round::announce: return parts_.announcing.announce(operation);
    case Round::agree: {
      const Lacking lacking = parts_.entering.lacking_of(operation);
      return publish(&lacking, sizeof lacking);
    }
    case Round::barrier: return publish(nullptr, 0);
    case Round::find_staging: {
      std::uint64_t offset = 0;
      if (group.rank == 0)
        offset = memory::Staging::find_range(parts_.job.arena(), group.board.index(), group.size(),
                                             schedule::usual_staging_bytes(group.size()))
                     .offset();
      return publish(&offset, sizeof offset);
    }
    case Round::share_staging: {
      const std::byte mapped{
          group.staging.map(parts_.job.arena(), group.size(), group.rank, schedule::usual_staging_bytes(group.size()))};
      return publish(&mapped, sizeof mapped);
    }
    case Round::none: return;
  }
}

void Rounds::lines_came(Operation& operation, Round round) {
  Group& group = *operation.group;
  switch (round) {
    case Round::exchange:
      if (parts_.steps.issue(operation, Ticket::Part::lines, 0, take_lines_step())) lines_taken(operation);
      return;
    case Round::announce:
      if (const std::uint32_t next = parts_.announcing.decide_by_lines(operation); next != Announcing::kUndecided) {
        leave_exchange(group);
        return parts_.entering.begin_reaching(operation, next);
      }
      return parts_.entering.entries_came(operation);
    case Round::agree: return parts_.entering.all_agreed(operation);
    case Round::find_staging:
      std::memcpy(&group.staging.offset, group.board.payload(0, sizeof group.staging.offset),
                  sizeof group.staging.offset);
      group.board.finish();
      return begin(operation, Round::share_staging);
    case Round::share_staging: {
      // A rank knows its own answer without its line, to which others could write.
      bool everywhere = !group.staging.at.empty();
      for (int rank = 0; rank < group.size(); ++rank) {
        everywhere = *group.board.payload(rank, 1) != std::byte{0} && everywhere;
      }
      group.board.finish();
      return parts_.entering.staging_agreed(operation, everywhere);
    }
    case Round::barrier: group.board.finish(); return step_done(operation, operation.barrier_step);
    case Round::none: return;
  }
}

bool Rounds::move() {
  bool moved = false;
  for (std::size_t i = 0; i < on_boards_.size();) {
    Group* const group = on_boards_[i];
    const std::uint64_t before = group->movement;
    poll(*group);
    moved |= group->movement != before;
    if (i < on_boards_.size() && on_boards_[i] == group) ++i;
  }
  for (std::size_t i = 0; i < behind_.size();) {
    Group& group = *behind_[i];
    parts_.supervision.check_lines_behind(group);
    if (group.board.is_behind() && !group.error) {
      ++i;
    } else {
      behind_.erase(behind_.begin() + std::ptrdiff_t(i));
    }
  }
  return moved;
}

void Rounds::leave_exchange(Group& group) {
  group.board.finish();
  if (group.board.is_behind()) note_behind(group);
}

void Rounds::note_behind(Group& group) {
  if (std::find(behind_.begin(), behind_.end(), &group) == behind_.end()) behind_.push_back(&group);
}

void Rounds::forget_lines(Group& group) {
  while (group.on_board.pop() != nullptr) {
  }
  std::erase(on_boards_, &group);
}

void Rounds::forget_behind(Group& group) { std::erase(behind_, &group); }

bool Rounds::awaits_elsewhere() const {
  return !on_boards_.empty() && std::all_of(on_boards_.begin(), on_boards_.end(),
                                            [](const Group* each) { return each->board.awaits_elsewhere(); });
}

void Rounds::about_to_sleep() {
  for (Group* group : on_boards_) group->board.about_to_sleep();
}

void Rounds::reserve(std::size_t groups) {
  on_boards_.reserve(groups);
  behind_.reserve(groups);
}

}  // namespace anello::executor
