#pragma once
// Decides which gradients are sent together: parameters in the order in which they become ready, cut where a bucket has
// enough. Each type has its own buckets; buckets are numbered in the order in which they become full.
#include <anello/anello.h>

#include <cstddef>
#include <vector>

namespace anello::gradient_sync {

struct Part {
  std::size_t parameter;
  std::size_t offset;  // in elements
};

struct BucketPlan {
  anello_dtype_t dtype;
  std::vector<Part> parts;
  std::size_t count = 0;  // elements, with gaps
};

struct Sized {
  std::size_t count;
  anello_dtype_t dtype;
};

// Gradients begin on cache lines, so that threads that fill neighbouring gradients share no line.
inline constexpr std::size_t kAlignment = 64;

// order: each parameter once, in the order of becoming ready. A bucket is closed once it holds first_bytes (the first
// of a type) or bytes, so it may exceed this by one parameter.
std::vector<BucketPlan> plan_buckets(const std::vector<Sized>& parameters, const std::vector<std::size_t>& order,
                                     std::size_t first_bytes, std::size_t bytes);

}  // namespace anello::gradient_sync
