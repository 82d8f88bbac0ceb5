#pragma once
// The gradients of some parameters in one piece of memory, and how far it has come in this step.
#include "gradient_sync/bucket_plan.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::gradient_sync {

// Zeroed memory that ranks of this host map.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);  // throws
  std::byte* get() const { return memory_.get(); }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { anello_mem_free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

struct Bucket {
  // wire: in which type it travels. views: gradients live in it. feedback: what rounding takes away is kept.
  Bucket(BucketPlan from, std::size_t number, anello_dtype_t wire, bool views, bool feedback);

  std::byte* sent(const Part& part) const { return data.get() + part.offset * anello_dtype_size(wire); }
  // Where the gradient lives. With views.
  std::byte* home(const Part& part) const {
    return (homes ? homes.get() : data.get()) + part.offset * anello_dtype_size(plan.dtype);
  }
  // What rounding took away so far; nullptr: it is not kept.
  float* rest(const Part& part) { return residual.empty() ? nullptr : residual.data() + part.offset; }

  void enter_step();

  const std::size_t index;
  const BucketPlan plan;
  const anello_dtype_t wire;
  std::vector<std::size_t> parameters;
  Memory data;   // what travels
  Memory homes;  // views whose type is not the wire's
  std::vector<float> residual;

  std::atomic<std::size_t> missing{0};  // gradients of this step
  bool full = false, ended = false;
  anello_request_t request = ANELLO_REQUEST_NULL;
  std::int64_t ready_ns = 0, start_ns = 0, end_ns = 0;
};

}  // namespace anello::gradient_sync
