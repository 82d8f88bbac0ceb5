#include "control/processors.h"

#include "base/processor_quota.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <sched.h>

namespace anello::control {
namespace {

void lower(int& limit, int other) {
  if (other > 0) limit = limit == 0 ? other : std::min(limit, other);
}

Processors::Words affinity_mask() {
  Processors::Words words;
  // A set of fixed size fails on machines with more processors than it holds.
  for (int bits = 1024; bits <= int(Processors::kMaxWords) * 64; bits *= 4) {
    cpu_set_t* const set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool fits = ::sched_getaffinity(0, bytes, set) == 0;
    for (int processor = 0; fits && processor < bits; ++processor) {
      if (!CPU_ISSET_S(std::size_t(processor), bytes, set)) continue;
      words.resize(std::size_t(processor) / 64 + 1);
      words.back() |= std::uint64_t{1} << processor % 64;
    }
    CPU_FREE(set);
    if (fits) break;
  }
  return words;
}

}  // namespace

Processors Processors::of_this_process() { return {affinity_mask(), static_cast<int>(std::ceil(processor_quota()))}; }

int Processors::count() const {
  int processors = 0;
  for (const std::uint64_t word : allowed_) processors += std::popcount(word);
  lower(processors, quota_);
  return std::max(1, processors);
}

void Processors::join(const Processors& other) {
  if (allowed_.empty()) {
    *this = other;
    return;
  }
  allowed_.resize(std::max(allowed_.size(), other.allowed_.size()));
  for (std::size_t i = 0; i < other.allowed_.size(); ++i) allowed_[i] |= other.allowed_[i];
  // It is not visible whether two quotas are the same one, so the larger one counts for both.
  quota_ = quota_ == 0 || other.quota_ == 0 ? 0 : std::max(quota_, other.quota_);
}

}  // namespace anello::control
