#pragma once
// Explains what a collective would do, without doing it and without other ranks.
#include "executor/plan.h"
#include "schedule/choose.h"
#include "schedule/totals.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

namespace anello {

struct Explanation {
  schedule::Call call;
  schedule::Topology topology;
  schedule::Decision decision;
  std::shared_ptr<const executor::Plan> plan;
  bool cached = false;                                      // the plan already existed
  std::array<const char*, schedule::kReaches> by_reach{};   // the algorithm's name
  std::array<std::uint64_t, schedule::kReaches> reached{};  // calls so far
  std::array<const char*, schedule::kSpaces> by_space{};    // likewise; null: through the host
  std::uint64_t on_devices = 0;                             // calls so far
  schedule::Totals totals;
  std::size_t chunks = 0;         // of a block, or of the whole vector if the algorithm cuts that
  std::optional<double> seconds;  // a rough guess; none if other ranks' counts are unknown, or too many to read
};

}  // namespace anello
