#include "executor/plan.h"

namespace anello::executor {

std::shared_ptr<const Plan> Plan::of(schedule::Schedule schedule) {
  auto plan = std::make_shared<Plan>();
  plan->lane_of_step.assign(schedule.steps.size(), kNoLane);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (const std::uint32_t step : schedule.lanes[lane].sends) plan->lane_of_step[step] = std::uint16_t(lane);
    for (const std::uint32_t step : schedule.lanes[lane].receives) plan->lane_of_step[step] = std::uint16_t(lane);
  }
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    if (schedule.waits[step] == 0) plan->roots.push_back(step);
  }
  plan->is_exchange = schedule.steps.size() == 1 && schedule.steps[0].kind == schedule::Kind::exchange;
  plan->schedule = std::move(schedule);
  return plan;
}

}  // namespace anello::executor
