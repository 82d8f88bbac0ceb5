#pragma once
// A schedule ready to run: what the executor looks up per step is laid out beside it once. Shared, immutable.
#include "schedule/schedule.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

struct Plan {
  schedule::Schedule schedule;
  std::vector<std::uint16_t> lane_of_step;  // index into schedule.lanes; kNoLane for steps without a peer
  std::vector<std::uint32_t> roots;         // steps that wait for nothing
  // A single exchange step over the board and nothing else.
  bool is_exchange = false;

  static constexpr std::uint16_t kNoLane = 0xffff;
  static std::shared_ptr<const Plan> of(schedule::Schedule schedule);
};

}  // namespace anello::executor
