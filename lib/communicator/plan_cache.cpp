#include "communicator/plan_cache.h"

#include <algorithm>

namespace anello {

std::shared_ptr<const executor::Plan> PlanCache::find(const schedule::Call& call) {
  if (last_ < entries_.size() && entries_[last_].call == call) {
    entries_[last_].used = ++clock_;
    return entries_[last_].plan;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].call == call) {
      last_ = i;
      entries_[i].used = ++clock_;
      return entries_[i].plan;
    }
  }
  return nullptr;
}

void PlanCache::keep(const schedule::Call& call, std::shared_ptr<const executor::Plan> plan) {
  const std::size_t steps = plan->schedule.steps.size();
  while (!entries_.empty() && (entries_.size() >= kMaxPlans || steps_ + steps > kMaxSteps)) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    steps_ -= oldest->plan->schedule.steps.size();
    entries_.erase(oldest);
  }
  steps_ += steps;
  entries_.push_back({call, std::move(plan), ++clock_});
  last_ = entries_.size() - 1;
}

}  // namespace anello
