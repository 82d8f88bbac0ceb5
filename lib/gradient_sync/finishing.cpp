// The end of a step: copies results out of the buckets.
#include "gradient_sync/element_copy.h"
#include "gradient_sync/gradient_sync.h"

#include <algorithm>

namespace anello::gradient_sync {

void GradientSync::wait() {
  final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, "wait before begin");
    if (local_) {
      in_step_ = false;
      return;
    }
    flush_all();
    finish();
  });
}

bool GradientSync::test() {
  return final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, "test before begin");
    if (local_) {
      in_step_ = false;
      return true;
    }
    if (!flushed_ && remaining_.load(std::memory_order_acquire) > 0) return false;
    flush_all();
    check_for_ends();
    if (oldest_ < buckets_.size()) return false;
    for (anello_request_t* request : {&used_request_, &present_request_}) {
      int done = 0;
      check(comm_, anello_test(request, &done, nullptr), text("step ", steps_));
      if (done == 0) return false;
    }
    finish();
    return true;
  });
}

double GradientSync::factor_after() const {
  double factor = config_.postscale / scaler_.scale();
  if (config_.op == ANELLO_AVG && config_.average_over_active != 0 && hook_.start == nullptr) {
    factor /= static_cast<double>(std::count(present_.begin(), present_.end(), std::uint8_t{1}));
  }
  return factor;
}

void GradientSync::finish() {
  std::int64_t waited = 0;
  const auto wait_for = [&](auto&& body) {
    const std::int64_t start = now();
    body();
    waited += now() - start;
  };
  if (present_request_ != ANELLO_REQUEST_NULL) {
    wait_for([&] { check(comm_, anello_wait(&present_request_, nullptr), text("step ", steps_, ", who has data")); });
  }
  overflow_ = false;
  // A parameter without a gradient on this rank waits for the others' information.
  for (const auto& bucket : buckets_) {
    wait_for([&] { await(*bucket); });
    for (const std::size_t i : bucket->parameters) {
      if (parameters_[i].has_gradient) take_out(parameters_[i]);
    }
  }
  if (exchanges_used()) {
    wait_for([&] { check(comm_, anello_wait(&used_request_, nullptr), text("step ", steps_, ", used parameters")); });
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& one = parameters_[i];
      one.used_anywhere = (used_[i / 8] >> i % 8 & 1) != 0;
    }
  }
  for (Parameter& one : parameters_) {
    if (one.has_gradient) continue;
    one.where = one.data;
    if (!one.used_anywhere) continue;
    if (one.where == nullptr && config_.views == 0) {
      one.spare.resize(one.count * anello_dtype_size(one.dtype));
      one.where = one.spare.data();
    }
    take_out(one);
  }
  follow_overflow();
  count_step(waited);
  leave_step();
}

void GradientSync::follow_overflow() {
  const double before = scaler_.scale();
  scaler_.step(overflow_);
  if (scaler_.scale() == before) return;
  // The rounding errors were in units of the scale.
  const auto factor = static_cast<float>(scaler_.scale() / before);
  for (const auto& bucket : buckets_) {
    for (float& rest : bucket->residual) rest *= factor;
  }
}

void GradientSync::await(Bucket& bucket) {
  if (!bucket.ended) {
    check(comm_, anello_wait(&bucket.request, nullptr), text("step ", steps_, ", ", named(bucket)));
    bucket.end_ns = now();
    bucket.ended = true;
  }
  if (hook_.start != nullptr && hook_.finish != nullptr) {
    const anello_bucket_t told = this->bucket(bucket.index);
    const anello_result_t result = hook_.finish(hook_.context, &told, comm_);
    if (result != ANELLO_OK)
      refuse(result, text(named(bucket), ": its hook's finish ended with ", failure_of_hook(result)));
  }
}

void GradientSync::take_out(Parameter& one) {
  const std::int64_t start = now();
  const bool check_overflow = config_.check_overflow != 0 || config_.loss_scale > 0;
  const Bucket& bucket = *one.bucket;
  void* const to = config_.views != 0 ? static_cast<void*>(bucket.home(*one.part)) : one.where;
  if (to != nullptr &&
      !copy_elements(bucket.sent(*one.part), bucket.wire, to, one.dtype, one.count, factor_after(), check_overflow)) {
    overflow_ = true;
  }
  count_copy(one, start, to != nullptr && to != bucket.sent(*one.part));
}

void GradientSync::count_copy(const Parameter& one, std::int64_t start, bool moved) {
  copying_ns_.fetch_add(now() - start, std::memory_order_relaxed);
  if (moved) copied_bytes_.fetch_add(one.count * anello_dtype_size(one.dtype), std::memory_order_relaxed);
}

void GradientSync::count_step(std::int64_t waited) {
  ++statistics_.steps;
  if (overflow_) ++statistics_.overflows;
  statistics_.computing_ns += last_ready_ns_.load(std::memory_order_relaxed);
  statistics_.waiting_ns += waited + sending_last_ns_.load(std::memory_order_relaxed);
  std::int64_t until = 0;  // buckets start in order
  for (const auto& bucket : buckets_) {
    const std::int64_t from = std::max(bucket->start_ns, until);
    until = std::max(bucket->end_ns, until);
    statistics_.communicating_ns += std::max<std::int64_t>(until - from, 0);
  }
}

}  // namespace anello::gradient_sync
