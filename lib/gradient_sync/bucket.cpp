#include "gradient_sync/bucket.h"

namespace anello::gradient_sync {

Bucket::Bucket(Place& place, BucketPlan from, std::size_t number, anello_dtype_t wire_type, bool views, bool feedback)
    : index(number),
      plan(std::move(from)),
      wire(wire_type),
      data(place.allocate(plan.count * anello_dtype_size(wire))) {
  for (const Part& part : plan.parts) parameters.push_back(part.parameter);
  if (wire == plan.dtype) return;
  if (views) homes = place.allocate(plan.count * anello_dtype_size(plan.dtype));
  if (feedback) residual = place.allocate(plan.count * sizeof(float));
}

void Bucket::enter_step() {
  missing.store(plan.parts.size(), std::memory_order_relaxed);
  full = ended = false;
  streams.clear();
  ready_ns = start_ns = end_ns = 0;
}

}  // namespace anello::gradient_sync
