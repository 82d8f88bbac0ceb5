#include "gradient_sync/bucket_plan.h"

#include <map>

namespace anello::gradient_sync {

std::vector<BucketPlan> plan_buckets(const std::vector<Sized>& parameters, const std::vector<std::size_t>& order,
                                     std::size_t first_bytes, std::size_t bytes) {
  struct Open {
    BucketPlan plan;
    std::size_t limit;
  };
  std::map<anello_dtype_t, Open> open;
  std::vector<BucketPlan> closed;
  for (const std::size_t i : order) {
    const auto [count, dtype] = parameters[i];
    const std::size_t element = anello_dtype_size(dtype);
    const std::size_t step = kAlignment > element ? kAlignment / element : 1;
    Open& bucket = open.try_emplace(dtype, Open{{dtype, {}, 0}, first_bytes}).first->second;
    bucket.plan.parts.push_back({i, bucket.plan.count});
    bucket.plan.count += (count + step - 1) / step * step;
    if (bucket.plan.count * element < bucket.limit) continue;
    closed.push_back(std::move(bucket.plan));
    bucket = {{dtype, {}, 0}, bytes};
  }
  // The last bucket of a type is full when the last parameter of that type is ready.
  std::map<std::size_t, BucketPlan> left;
  std::vector<std::size_t> place(parameters.size());
  for (std::size_t at = 0; at < order.size(); ++at) place[order[at]] = at;
  for (auto& [dtype, bucket] : open) {
    if (!bucket.plan.parts.empty()) left.emplace(place[bucket.plan.parts.back().parameter], std::move(bucket.plan));
  }
  std::vector<BucketPlan> all;
  auto next = closed.begin();
  for (auto& [at, plan] : left) {
    while (next != closed.end() && place[next->parts.back().parameter] < at) all.push_back(std::move(*next++));
    all.push_back(std::move(plan));
  }
  while (next != closed.end()) all.push_back(std::move(*next++));
  return all;
}

}  // namespace anello::gradient_sync
