#pragma once
// Plans by all call properties that choose() reads, bounded in number and in steps; the least recently used plan is
// evicted first. Operations keep their plans alive.
#include "executor/plan.h"
#include "schedule/catalog.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace anello {

class PlanCache {
 public:
  // nullptr: not in the cache.
  std::shared_ptr<const executor::Plans> find(const schedule::Call& call);
  void keep(const schedule::Call& call, std::shared_ptr<const executor::Plans> plans);

 private:
  static constexpr std::size_t kMaxPlans = 128;
  static constexpr std::size_t kMaxSteps = 500'000;
  struct Entry {
    schedule::Call call;
    std::shared_ptr<const executor::Plans> plans;
    std::uint64_t used = 0;
  };
  std::vector<Entry> entries_;
  std::size_t last_ = 0;
  std::size_t steps_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace anello
