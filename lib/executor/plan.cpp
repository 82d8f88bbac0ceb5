#include "executor/plan.h"

#include <algorithm>

namespace anello::executor {

void PeerExtents::add(const schedule::Slice& slice) {
  const std::size_t end = slice.offset + slice.count;
  if (slice.owner == schedule::kEach) {
    of_each = std::max(of_each, end);
    return;
  }
  const auto rank = static_cast<std::size_t>(slice.owner);
  if (of_rank.size() <= rank) of_rank.resize(rank + 1);
  of_rank[rank] = std::max(of_rank[rank], end);
}

std::shared_ptr<const Plan> Plan::of(schedule::Schedule schedule) {
  auto plan = std::make_shared<Plan>();
  plan->lane_of_step.assign(schedule.steps.size(), kNoLane);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (const std::uint32_t step : schedule.lanes[lane].sends) plan->lane_of_step[step] = std::uint16_t(lane);
    for (const std::uint32_t step : schedule.lanes[lane].receives) plan->lane_of_step[step] = std::uint16_t(lane);
  }
  plan->is_exchange = schedule.steps.size() == 1 && schedule.steps[0].kind == schedule::Kind::exchange;
  for (const schedule::Step& step : schedule.steps) {
    plan->has_barrier = plan->has_barrier || step.kind == schedule::Kind::barrier;
    plan->reads_peers = plan->reads_peers || schedule::touches_peers(step);
    for (const schedule::Slice* slice : {&step.into, &step.from}) {
      if (slice->owner == schedule::kOwn || slice->count == 0 || slice->buffer == schedule::Buffer::staging) continue;
      (slice->buffer == schedule::Buffer::input ? plan->peer_inputs : plan->peer_outputs).add(*slice);
    }
  }
  plan->schedule = std::move(schedule);
  return plan;
}

}  // namespace anello::executor
