#include "executor/placed_step.h"

#include "executor/context.h"
#include "executor/peer_fold.h"
#include "executor/peer_work.h"

#include <cstring>
#include <optional>

namespace anello::executor {

using schedule::Kind;
using schedule::Step;

void PlacedStep::fold(const kernels::Reducer& reducer) const {
  const bool pair = loads == 2 && !reducer.finishes;
  if (pair && stores == 1) return reducer.reduce(into[0], from[0], from[1], count);
  if (pair && stores == 2) return reducer.reduce_twice(into[0], into[1], from[0], from[1], count);
  reducer.reduce_all(into.data(), stores, from.data(), loads, count);
}

void PlacedStep::move_staging(std::ptrdiff_t by) {
  for (int i = 0; i < loads; ++i)
    if ((from_staging >> i & 1) != 0) from[std::size_t(i)] = static_cast<const std::byte*>(from[std::size_t(i)]) + by;
  for (int i = 0; i < stores; ++i)
    if ((into_staging >> i & 1) != 0) into[std::size_t(i)] = static_cast<std::byte*>(into[std::size_t(i)]) + by;
}

namespace {

template <class Places>
std::uint8_t those_in_staging(const Operation& operation, const Places& places, int count) {
  unsigned found = 0;
  // Else what the operation has of it is another call's, and may be another communicator's.
  if (operation.plan->schedule.staging == 0) return 0;
  for (int i = 0; i < count; ++i)
    for (int rank = 0; rank < operation.group->size(); ++rank) {
      const auto offset = reinterpret_cast<std::uintptr_t>(places[std::size_t(i)]) -
                          reinterpret_cast<std::uintptr_t>(operation.staging[rank]);
      if (offset < operation.group->staging.bytes) found |= 1U << i;
    }
  return static_cast<std::uint8_t>(found);
}

}  // namespace

void place_staged_steps(Operation& operation) {
  if (operation.placed_staging == SIZE_MAX) return place_steps(operation);
  const auto by =
      static_cast<std::ptrdiff_t>(operation.staging_from) - static_cast<std::ptrdiff_t>(operation.placed_staging);
  for (PlacedStep& step : operation.placed_steps) step.move_staging(by);
  operation.placed_staging = operation.staging_from;
}

void place_steps(Operation& operation) {
  // In one go, as a piece.
  constexpr std::size_t kMostBytes = 256 * 1024;
  const schedule::Schedule& schedule = operation.plan->schedule;
  const auto is_here = [&](const schedule::Slice& slice) {
    return slice.owner == schedule::kOwn || slice.buffer == schedule::Buffer::staging ||
           (slice.owner >= 0 && operation.buffer_of(slice, slice.owner).process == nullptr);
  };
  std::vector<PlacedStep>& placed = operation.placed_steps;
  placed.clear();
  operation.placed_staging = operation.staging_from;
  if (operation.reach == schedule::Reach::read || schedule.scratch > 0 || schedule.accumulator > 0) return;
  std::size_t bytes = 0;
  for (const Step& step : schedule.steps) {
    std::optional<PlacedStep> found;
    if (step.kind == Kind::meet) {
      found.emplace();
    } else if (step.kind == Kind::fold || step.kind == Kind::fold_staged) {
      found = place_fold(operation, step);
    } else if (step.kind == Kind::copy && is_here(step.from) && is_here(step.into)) {
      const std::size_t all = step.into.count * operation.element_bytes;
      found = {Kind::copy, {operation.at(step.from)}, {operation.at(step.into)}, 1, 1, all, all};
      found->stages = step.into.buffer == schedule::Buffer::staging;
      found->fetches = step.from.buffer == schedule::Buffer::staging;
    }
    if (found) {
      found->from_staging = those_in_staging(operation, found->from, found->loads);
      found->into_staging = those_in_staging(operation, found->into, found->stores);
      bytes += found->bytes;
    }
    if (!found || bytes > kMostBytes) return placed.clear();
    placed.push_back(*found);
  }
}

bool do_placed(Operation& operation, const PlacedStep& step) {
  Group& group = *operation.group;
  // What is staged is no caller's.
  if (operation.exposed && !group.board.begin_touching(operation.sequence)) return false;
  if (step.kind == Kind::fold) {
    step.fold(*operation.reducer);
  } else if (step.stages) {
    copy_to_staging(operation, static_cast<std::byte*>(step.into[0]), static_cast<const std::byte*>(step.from[0]),
                    step.bytes);
  } else if (step.fetches) {
    memory::copy_stored_elsewhere(static_cast<std::byte*>(step.into[0]), static_cast<const std::byte*>(step.from[0]),
                                  step.bytes);
  } else if (step.into[0] != step.from[0]) {
    std::memcpy(step.into[0], step.from[0], step.bytes);
  }
  if (operation.exposed) group.board.end_touching();
  group.context.count_handled(step.bytes);
  ++group.movement;
  return true;
}

}  // namespace anello::executor
