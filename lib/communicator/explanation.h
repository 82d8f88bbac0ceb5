#pragma once
// What a collective would do, found out without doing it or asking anybody.
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
  bool cached = false;                                      // the plan was there already
  std::array<const char*, schedule::kReaches> by_reach{};   // the algorithm's name
  std::array<std::uint64_t, schedule::kReaches> reached{};  // calls so far
  schedule::Totals totals;
  std::size_t chunks = 0;  // of a block, or of the whole vector where the algorithm cuts that
  std::optional<double>
      seconds;  // a rough guess; none where other ranks' counts are not known, or are too many to look at
};

}  // namespace anello
