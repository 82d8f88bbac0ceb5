// Context: how a communicator comes to its staging memory. The operation that wants it first has the board meanwhile.
#include "executor/staging.h"

#include "base/log.h"
#include "executor/context.h"
#include "executor/run.h"

#include <algorithm>

namespace anello::executor {

void Context::set_up_staging(Operation& operation) {
  operation.sets_up_staging = true;
  use_board(operation, BoardUse::stage);
}

void Context::take_staging(Operation& operation) {
  const std::size_t staged = operation.plan->schedule.staging * operation.element_bytes;
  if (staged == 0) return;
  Staging& staging = operation.group->staging;
  operation.staging = staging.at.data();
  operation.staging_from = staging.take(staged, operation.plan->schedule.staging_comes_back);
}

// Up to its first meet, of which the lines tell. Others may not have done with the last call yet, but with all before it.
void Context::stage_early(Operation& operation) {
  operation.staged_early = true;
  take_plain(operation);
  take_staging(operation);
  // Memory that does not come back is at another place in each call.
  const bool comes_back = operation.plan->schedule.staging_comes_back;
  if (comes_back && operation.placed_staging != operation.staging_from) place_staged_steps(operation);
  if (!comes_back) operation.placed_steps.clear();
  if (operation.placed_steps.empty()) {
    std::size_t all = SIZE_MAX;
    operation.meet_step = walk(operation, 0, &all);
    return;
  }
  std::uint32_t at = 0;
  for (; operation.placed_steps[at].kind != schedule::Kind::meet; ++at) do_placed(operation, operation.placed_steps[at]);
  operation.meet_step = at;
}

// What cannot be had here is in no region.
AnnouncedBuffer Context::own_staging(Group& group) {
  try {
    group.staging.own = transport::make_region(schedule::usual_staging_bytes(group.size()));
    return {reinterpret_cast<std::uintptr_t>(group.staging.own), transport::find_region(group.staging.own, 1).region, 0};
  } catch (const Error& error) {
    log::info(rank_, "no staging memory: ", error.text());
    return {};
  }
}

void Context::staging_announced(Operation& operation) {
  const std::vector<AnnouncedBuffer>& places = operation.group->staging.places;
  const bool all = std::all_of(places.begin(), places.end(), [](const AnnouncedBuffer& each) { return each.region != 0; });
  if (all) return map_staging(operation);
  staging_settled(operation, false);
}

void Context::map_staging(Operation& operation) {
  const Group& group = *operation.group;
  bool waits = false;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (reaches_by_address(operation, rank)) continue;
    const std::uint64_t region = group.staging.places[std::size_t(rank)].region;
    waits = regions_.look_up(*job_, group.ranks[std::size_t(rank)], region) == RegionCache::State::asked || waits;
  }
  const auto listed = std::find(mapping_.begin(), mapping_.end(), &operation);
  if (waits) {
    if (listed == mapping_.end()) mapping_.push_back(&operation);
    return;
  }
  if (listed != mapping_.end()) mapping_.erase(listed);
  use_board(operation, BoardUse::staged);
}

bool Context::has_mapped_staging(const Operation& operation) {
  Staging& staging = operation.group->staging;
  const auto ranks = std::size_t(operation.group->size());
  staging.bytes = schedule::usual_staging_bytes(operation.group->size());
  staging.at.assign(ranks, nullptr);
  staging.mappings.assign(ranks, nullptr);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const AnnouncedBuffer& place = staging.places[rank];
    if (reaches_by_address(operation, int(rank))) {
      staging.at[rank] = reinterpret_cast<std::byte*>(place.address);
      continue;
    }
    staging.mappings[rank] = regions_.mapping(place.region);
    if (staging.mappings[rank] == nullptr || staging.mappings[rank]->bytes() < staging.bytes) return false;
    staging.at[rank] = staging.mappings[rank]->data();
  }
  return true;
}

void Context::staging_settled(Operation& operation, bool everywhere) {
  Staging& staging = operation.group->staging;
  staging.state = everywhere ? Staging::State::ready : Staging::State::failed;
  if (!everywhere) {
    log::info(rank_, "not all ranks have staging memory: their calls send messages instead");
    staging.give_up();
  }
  operation.sets_up_staging = false;
  take_schedule(operation, operation.reach);
}

}  // namespace anello::executor
