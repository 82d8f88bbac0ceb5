#include "executor/resolved_plan.h"

#include "executor/group.h"

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

template <class Places>
std::uint8_t those_in_staging(const Operation& operation, const Places& places, int count) {
  unsigned found = 0;
  // Otherwise the operation's staging memory is another call's, and may be another communicator's.
  if (operation.plan->schedule.staging == 0) return 0;
  for (int i = 0; i < count; ++i)
    for (int rank = 0; rank < operation.group->size(); ++rank) {
      const auto offset = reinterpret_cast<std::uintptr_t>(places[std::size_t(i)]) -
                          reinterpret_cast<std::uintptr_t>(operation.staging[rank]);
      if (offset < operation.group->staging.bytes) found |= 1U << i;
    }
  return static_cast<std::uint8_t>(found);
}

// Whether the step is the same in each call with these buffers.
bool stays(const Operation& operation, const Step& step, const ResolvedStep& resolved) {
  if (resolved.action == Action::get || resolved.step != nullptr) return false;
  // If staging memory does not come back, each call decides anew whether a result goes past the caches.
  return step.shown == schedule::kNotShown || operation.plan->schedule.staging_comes_back;
}

}  // namespace

void resolve_plan(Operation& operation) {
  // The plan runs in one go, like a piece.
  constexpr std::size_t kMostBytes = 256 * 1024;
  const schedule::Schedule& schedule = operation.plan->schedule;
  std::vector<ResolvedStep>& steps = operation.resolved.steps;
  steps.clear();
  operation.resolved.staging_from = operation.staging_from;
  if (operation.reach == schedule::Reach::read || schedule.scratch > 0 || schedule.accumulator > 0) return;
  std::size_t bytes = 0;
  for (const Step& step : schedule.steps) {
    if (schedule::has_peer(step.kind) || step.kind == Kind::exchange) return steps.clear();
    ResolvedStep resolved = resolve(operation, step, 0, step.into.count);
    bytes += resolved.bytes;
    if (!stays(operation, step, resolved) || bytes > kMostBytes) return steps.clear();
    resolved.from_staging = those_in_staging(operation, resolved.from, resolved.loads);
    resolved.into_staging = those_in_staging(operation, resolved.into, resolved.stores);
    steps.push_back(resolved);
  }
}

void resolve_staged_plan(Operation& operation) {
  ResolvedPlan& resolved = operation.resolved;
  if (resolved.staging_from == SIZE_MAX) return resolve_plan(operation);
  const auto by =
      static_cast<std::ptrdiff_t>(operation.staging_from) - static_cast<std::ptrdiff_t>(resolved.staging_from);
  for (ResolvedStep& step : resolved.steps) step.move_staging(by);
  resolved.staging_from = operation.staging_from;
}

std::uint32_t run_resolved(Operation& operation, std::uint32_t first) {
  Group& group = *operation.group;
  const ResolvedStep* const begin = operation.resolved.steps.data();
  const ResolvedStep* const end = begin + operation.resolved.steps.size();
  // Staged data is in no caller's buffer.
  const bool exposed = operation.exposed;
  const ResolvedStep* step = begin + first;
  for (; step != end && step->action != Action::barrier; ++step) {
    if (exposed && !group.board.begin_touching(operation.sequence)) break;
    run_step(operation, *step);
    if (exposed) group.board.end_touching();
    ++group.movement;
  }
  return static_cast<std::uint32_t>(step - begin);
}

}  // namespace anello::executor
