#include "executor/resolved_step.h"

#include "base/kind.h"
#include "executor/activity.h"
#include "executor/exchange.h"
#include "executor/reduce_step.h"
#include "executor/routes.h"
#include "executor/steps.h"

#include <cstring>

namespace anello::executor {

using schedule::Buffer;
using schedule::Kind;
using schedule::Step;

void ResolvedStep::reduce(const kernels::Reducer& reducer) const {
  const bool pair = loads == 2 && !reducer.finishes;
  if (pair && stores == 1) return reducer.reduce(into[0], from[0], from[1], count);
  if (pair && stores == 2) return reducer.reduce_twice(into[0], into[1], from[0], from[1], count);
  reducer.reduce_all(into.data(), stores, from.data(), loads, count);
}

void ResolvedStep::move_staging(std::ptrdiff_t by) {
  for (int i = 0; i < loads; ++i)
    if ((from_staging >> i & 1) != 0) from[std::size_t(i)] = static_cast<const std::byte*>(from[std::size_t(i)]) + by;
  for (int i = 0; i < stores; ++i)
    if ((into_staging >> i & 1) != 0) into[std::size_t(i)] = static_cast<std::byte*>(into[std::size_t(i)]) + by;
}

namespace {

// Whether the copy makes results of a call that has too many for any cache to hold until they are loaded. Calls that
// have just loaded the old contents, such as sums in place, are excepted: those lines are in a cache still.
bool goes_past_caches(const Operation& operation, const Step& copy) {
  // Only calls that announce their buffers know how long these are.
  if (copy.into.buffer != Buffer::output || !operation.announces()) return false;
  if (operation.output_bytes * static_cast<std::size_t>(operation.group->size()) < memory::kPastCaches) return false;
  return !kind_reduces(operation.kind) && (operation.kind != ANELLO_ALLTOALL || !operation.input_inside);
}

Action action_of_copy(const Operation& operation, const Step& step) {
  if (step.into.buffer == Buffer::accumulator) return Action::widen;
  if (step.into.buffer == Buffer::staging) return Action::copy_to_staging;
  if (goes_past_caches(operation, step)) return Action::copy_past_caches;
  return step.from.buffer == Buffer::staging ? Action::copy_from_staging : Action::copy;
}

Action action_of(const Operation& operation, const Step& step) {
  switch (step.kind) {
    case Kind::copy: return action_of_copy(operation, step);
    case Kind::reduce: return step.into.buffer == Buffer::accumulator ? Action::accumulate : Action::combine;
    case Kind::finish: return step.from.buffer == Buffer::accumulator ? Action::finish : Action::finish_in_type;
    default: return Action::nothing;
  }
}

ResolvedStep resolve_copy_to_each(Operation& operation, const Step& step, std::size_t first, std::size_t count) {
  ResolvedStep resolved;
  resolved.action = count > 0 ? Action::copy_to_each : Action::nothing;
  resolved.count = count;
  resolved.bytes = count * operation.element_bytes;
  resolved.step = &step;
  resolved.first = first;
  resolved.loads = 1;
  resolved.from[0] = operation.at(part_of(step.from, first, count));
  const int size = operation.group->size();
  for (int rank = 0; rank < size && size <= ResolvedStep::kAbreast; ++rank)
    resolved.into[std::size_t(resolved.stores++)] = operation.at_peer(part_of(step.into, first, count), rank);
  return resolved;
}

void copy_to_each(const Operation& operation, const ResolvedStep& step) {
  for (int rank = 0; rank < operation.group->size(); ++rank) {
    std::byte* const into = operation.at_peer(part_of(step.step->into, step.first, step.count), rank);
    if (into != step.from[0]) std::memcpy(into, step.from[0], step.bytes);
  }
}

// Copies into staging memory. If the schedule's comes back, a rank stores to the lines that it has loaded last, so that
// they are in its caches, wherever the others' are.
void copy_to_staging(Operation& operation, std::byte* into, const std::byte* from, std::size_t bytes) {
  if (operation.plan->schedule.staging_comes_back) {
    std::memcpy(into, from, bytes);
  } else {
    operation.group->parts.steps.copies_to_peers().copy(into, from, bytes);
  }
}

}  // namespace

ResolvedStep resolve(Operation& operation, const Step& step, std::size_t first, std::size_t count) {
  if (step.kind == Kind::reduce_ranks || step.kind == Kind::reduce_staged)
    return resolve_reduce(operation, step, first, count);
  if (step.kind == Kind::copy && step.into.owner == schedule::kEach)
    return resolve_copy_to_each(operation, step, first, count);
  ResolvedStep resolved;
  if (step.kind == Kind::barrier) {
    resolved.action = Action::barrier;
    return resolved;
  }
  std::byte* const from = operation.at(part_of(step.from, first, count));
  std::byte* const into = operation.at(part_of(step.into, first, count));
  resolved.action = count > 0 ? action_of(operation, step) : Action::nothing;
  resolved.count = count;
  resolved.bytes = count * operation.element_bytes;
  resolved.loads = resolved.stores = 1;
  resolved.from[0] = from;
  resolved.into[0] = into;
  if (resolved.action == Action::combine) {
    resolved.loads = 2;
    resolved.from[step.reversed ? 1 : 0] = into;
    resolved.from[step.reversed ? 0 : 1] = from;
  } else if (step.from.owner >= 0 && step.from.buffer != Buffer::staging) {
    resolved.remote = operation.buffer_of(step.from, step.from.owner).remote;
    resolved.peer = step.from.owner;
    if (resolved.remote != nullptr) resolved.action = Action::get;
  }
  return resolved;
}

void get_from(const Operation& operation, transport::RemoteMemory& remote, int rank, const void* from, std::byte* into,
              std::size_t bytes) {
  const Group& group = *operation.group;
  const int error = remote.get_now({.peer = group.parts.routes.remote_peer(group, rank),
                                    .at = {.address = reinterpret_cast<std::uintptr_t>(from)},
                                    .local = into,
                                    .bytes = bytes});
  if (error != 0) throw ReadFailure{rank, error, bytes};
}

void run_step(Operation& operation, const ResolvedStep& step) {
  const kernels::Reducer* const reducer = operation.reducer;
  const auto* const from = static_cast<const std::byte*>(step.from[0]);
  auto* const into = static_cast<std::byte*>(step.into[0]);
  switch (step.action) {
    case Action::nothing:
    case Action::barrier: return;
    case Action::copy:
      if (into != from) std::memcpy(into, from, step.bytes);
      break;
    case Action::copy_past_caches:
      if (into != from) memory::copy_past_caches(into, from, step.bytes);
      break;
    case Action::copy_to_staging: copy_to_staging(operation, into, from, step.bytes); break;
    case Action::copy_from_staging: memory::copy_stored_elsewhere(into, from, step.bytes); break;
    case Action::copy_to_each: copy_to_each(operation, step); break;
    case Action::get: get_from(operation, *step.remote, step.peer, from, into, step.bytes); break;
    case Action::widen: reducer->widen(into, from, step.count); break;
    case Action::accumulate: reducer->accumulate(into, from, step.count); break;
    case Action::combine: operation.combine(into, from, static_cast<const std::byte*>(step.from[1]), step.count); break;
    case Action::finish: reducer->finish(into, from, step.count, operation.group->size()); break;
    case Action::finish_in_type: reducer->finish_in_type(into, from, step.count, operation.group->size()); break;
    case Action::take_lines: complete_exchange(*operation.group, operation); break;
    case Action::deliver: operation.staged.deliver(); break;
    case Action::reduce: step.reduce(*reducer); break;
    case Action::reduce_in_blocks: reduce_in_blocks(operation, step); break;
  }
  if (step.streamed != nullptr) operation.group->parts.steps.copies_to_peers().copy(step.streamed, into, step.bytes);
  operation.group->parts.activity.count_handled(step.bytes);
}

}  // namespace anello::executor
