#include "communicator/plan_cache.h"

#include <algorithm>

namespace anello {
namespace {

std::size_t steps_of(const executor::Plans& plans) {
  std::size_t steps = 0;
  for (const auto& plan : plans.by_reach) steps += plan != nullptr ? plan->schedule.steps.size() : 0;
  for (const auto& plan : plans.by_space) steps += plan != nullptr ? plan->schedule.steps.size() : 0;
  return steps;
}

}  // namespace

std::shared_ptr<const executor::Plans> PlanCache::find(const schedule::Call& call) {
  if (last_ < entries_.size() && entries_[last_].call == call) {
    entries_[last_].used = ++clock_;
    return entries_[last_].plans;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].call == call) {
      last_ = i;
      entries_[i].used = ++clock_;
      return entries_[i].plans;
    }
  }
  return nullptr;
}

void PlanCache::keep(const schedule::Call& call, std::shared_ptr<const executor::Plans> plans) {
  const std::size_t steps = steps_of(*plans);
  while (!entries_.empty() && (entries_.size() >= kMaxPlans || steps_ + steps > kMaxSteps)) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    steps_ -= steps_of(*oldest->plans);
    entries_.erase(oldest);
  }
  steps_ += steps;
  entries_.push_back({call, std::move(plans), ++clock_});
  last_ = entries_.size() - 1;
}

}  // namespace anello
