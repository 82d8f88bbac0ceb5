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
  // Over peers' memory: the elements of a peer's input and output that its steps are at, from the first on; and whether
  // it meets on the board.
  std::size_t peer_input = 0;
  std::size_t peer_output = 0;
  bool meets = false;

  static constexpr std::uint16_t kNoLane = 0xffff;
  static std::shared_ptr<const Plan> of(schedule::Schedule schedule);
};

// Of one call: by what ranks turn out to reach of each other's buffers; the same one where that changes nothing. Where only
// the first is there, none announces any.
struct Plans {
  std::shared_ptr<const Plan> by_reach[schedule::kReaches];

  const std::shared_ptr<const Plan>& at(schedule::Reach reach) const { return by_reach[std::size_t(reach)]; }
  bool announces() const { return at(schedule::Reach::store) != nullptr; }
};

}  // namespace anello::executor
