#include "gradient_sync/bucket.h"

#include "gradient_sync/collective.h"

namespace anello::gradient_sync {

Memory::Memory(std::size_t bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  check(ANELLO_COMM_NULL, anello_mem_alloc(bytes, &memory), "memory for a bucket");
  memory_.reset(static_cast<std::byte*>(memory));
}

Bucket::Bucket(BucketPlan from, std::size_t number, anello_dtype_t wire_type, bool views, bool feedback)
    : index(number), plan(std::move(from)), wire(wire_type), data(plan.count * anello_dtype_size(wire)) {
  for (const Part& part : plan.parts) parameters.push_back(part.parameter);
  if (views && wire != plan.dtype) homes = Memory(plan.count * anello_dtype_size(plan.dtype));
  if (feedback && wire != plan.dtype) residual.assign(plan.count, 0);
}

void Bucket::enter_step() {
  missing.store(plan.parts.size(), std::memory_order_relaxed);
  full = ended = false;
  ready_ns = start_ns = end_ns = 0;
}

}  // namespace anello::gradient_sync
