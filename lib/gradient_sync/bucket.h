#pragma once
// The gradients of some parameters in one piece of memory, and its state in this step.
#include "gradient_sync/bucket_plan.h"
#include "gradient_sync/place.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace anello::gradient_sync {

struct Bucket {
  // wire: the type in which it is sent. views: gradients live in it. feedback: rounding errors are kept. Throws Error.
  Bucket(Place& place, BucketPlan from, std::size_t number, anello_dtype_t wire, bool views, bool feedback);

  std::byte* sent(const Part& part) const { return data.get() + part.offset * anello_dtype_size(wire); }
  // The gradient's address. Requires views.
  std::byte* home(const Part& part) const {
    return (homes ? homes.get() : data.get()) + part.offset * anello_dtype_size(plan.dtype);
  }
  // The rounding errors so far; nullptr: they are not kept.
  float* rest(const Part& part) const {
    return residual ? reinterpret_cast<float*>(residual.get()) + part.offset : nullptr;
  }

  void enter_step();

  const std::size_t index;
  const BucketPlan plan;
  const anello_dtype_t wire;
  std::vector<std::size_t> parameters;
  Memory data;      // the data to send
  Memory homes;     // views whose type differs from the wire type
  Memory residual;  // floats

  std::atomic<std::size_t> missing{0};  // gradients of this step
  bool full = false, ended = false;
  std::vector<Stream> streams;  // in which its gradients became ready
  anello_request_t request = ANELLO_REQUEST_NULL;
  std::int64_t ready_ns = 0, start_ns = 0, end_ns = 0;
};

}  // namespace anello::gradient_sync
