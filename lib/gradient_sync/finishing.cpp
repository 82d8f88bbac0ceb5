// The end of a step: copies results out of the buckets.
#include "gradient_sync/gradient_sync.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace anello::gradient_sync {

void GradientSync::wait() {
  final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, "wait before begin");
    if (local_) {
      in_step_ = false;
      return;
    }
    flush_all();
    enqueue_results(place_->own());
    wait_for([&] { await_stream(place_->own()); });
    conclude(place_->own());
  });
}

void GradientSync::wait_on(Stream stream) {
  final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, "wait_on before begin");
    if (local_) {
      in_step_ = false;
      return;
    }
    flush_all();
    enqueue_results(stream);
    conclude(stream);
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
    if (!has_results_) {
      check_for_ends();
      if (!place_->has_streams() && oldest_ < buckets_.size()) return false;
      for (anello_request_t* request : {&used_request_, &present_request_}) {
        int done = 0;
        check(comm_, anello_test(request, &done, nullptr), text("step ", steps_));
        if (done == 0) return false;
      }
      enqueue_results(place_->own());
    }
    if (!place_->is_done(place_->own())) {
      check(comm_, anello_comm_async_error(comm_), text("step ", steps_));
      return false;
    }
    conclude(place_->own());
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

template <class Body>
void GradientSync::wait_for(Body&& body) {
  const std::int64_t start = now();
  body();
  waited_ns_ += now() - start;
}

// Calls in the stream end by their own deadlines. The caller's work in it may take long, but not for ever.
void GradientSync::await_stream(Stream stream) {
  if (!place_->has_streams()) return;
  constexpr std::chrono::microseconds kShort{10}, kLong{1000};
  constexpr std::int64_t kMostMs = 600'000;
  const std::int64_t limit_ms = config_.timeout_ms > 0 ? config_.timeout_ms : kMostMs;
  const std::int64_t begun = now();
  for (auto pause = kShort; !place_->is_done(stream); pause = std::min(2 * pause, kLong)) {
    check(comm_, anello_comm_async_error(comm_), text("step ", steps_));
    if (now() - begun > limit_ms * 1'000'000)
      refuse(ANELLO_ERR_TIMEOUT, text("a stream of device ", config_.device, " has not come to its end for ", limit_ms,
                                      " ms: a kernel or copy in it does not end"));
    std::this_thread::sleep_for(pause);
  }
  check(comm_, anello_comm_async_error(comm_), text("step ", steps_));
}

// On a device, the stream copies the results behind the all-reduces. On the host they are there.
void GradientSync::enqueue_results(Stream stream) {
  if (present_request_ != ANELLO_REQUEST_NULL) {
    wait_for([&] { check(comm_, anello_wait(&present_request_, nullptr), text("step ", steps_, ", who has data")); });
  }
  place_->follow(stream, place_->own());
  // A parameter without a gradient on this rank waits for the others' information.
  for (const auto& bucket : buckets_) {
    wait_for([&] { await(*bucket); });
    for (const std::size_t i : bucket->parameters) {
      if (parameters_[i].has_gradient) take_out(parameters_[i], stream);
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
      if (!one.spare) one.spare = place_->allocate(one.count * anello_dtype_size(one.dtype));
      one.where = one.spare.get();
    }
    take_out(one, stream);
  }
  place_->follow(place_->own(), stream);
  has_results_ = true;
}

void GradientSync::conclude(Stream stream) {
  overflow_ = false;
  if (checks_overflow()) {
    wait_for([&] { await_stream(stream); });
    overflow_ = place_->found();
  }
  follow_overflow();
  place_->set_mark(place_->own());
  count_step();
  leave_step();
}

void GradientSync::follow_overflow() {
  const double before = scaler_.scale();
  scaler_.step(overflow_);
  if (scaler_.scale() == before) return;
  // The rounding errors were in units of the scale.
  const double factor = scaler_.scale() / before;
  for (const auto& bucket : buckets_) {
    std::byte* const rest = bucket->residual.get();
    if (rest != nullptr)
      place_->move({rest, ANELLO_FLOAT32, rest, ANELLO_FLOAT32, bucket->plan.count, factor}, place_->own());
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

void GradientSync::take_out(Parameter& one, Stream stream) {
  const std::int64_t start = now();
  const Bucket& bucket = *one.bucket;
  void* const to = config_.views != 0 ? static_cast<void*>(bucket.home(*one.part)) : one.where;
  const std::byte* const from = bucket.sent(*one.part);
  const double factor = factor_after();
  if (to != nullptr && (to != from || factor != 1 || checks_overflow()))
    place_->move({from, bucket.wire, to, one.dtype, one.count, factor, nullptr, checks_overflow()}, stream);
  count_copy(one, start, to != nullptr && to != bucket.sent(*one.part));
}

void GradientSync::count_copy(const Parameter& one, std::int64_t start, bool moved) {
  copying_ns_.fetch_add(now() - start, std::memory_order_relaxed);
  if (moved) copied_bytes_.fetch_add(one.count * anello_dtype_size(one.dtype), std::memory_order_relaxed);
}

void GradientSync::count_step() {
  ++statistics_.steps;
  if (overflow_) ++statistics_.overflows;
  statistics_.computing_ns += last_ready_ns_.load(std::memory_order_relaxed);
  statistics_.waiting_ns += waited_ns_ + sending_last_ns_.load(std::memory_order_relaxed);
  std::int64_t until = 0;  // buckets start in order
  for (const auto& bucket : buckets_) {
    const std::int64_t from = std::max(bucket->start_ns, until);
    until = std::max(bucket->end_ns, until);
    statistics_.communicating_ns += std::max<std::int64_t>(until - from, 0);
  }
}

}  // namespace anello::gradient_sync
