// Starts full buckets in the order of their numbers, whichever thread filled them.
#include "gradient_sync/gradient_sync.h"

namespace anello::gradient_sync {

void GradientSync::is_full(Bucket& bucket) {
  {
    const std::lock_guard held(mutex_);
    bucket.full = true;
    bucket.ready_ns = now();
    if (starting_ || (config_.delay != 0 && !flushed_)) return;
    starting_ = true;
  }
  start_full();
}

// Requires: this thread has set starting_. Other threads that fill a bucket meanwhile leave it to this one.
void GradientSync::start_full() {
  std::unique_lock held(mutex_);
  while (next_ < buckets_.size() && buckets_[next_]->full) {
    Bucket& bucket = *buckets_[next_];
    held.unlock();
    try {
      start(bucket);
      if (bucket.index + 1 == buckets_.size()) start_used_map();
    } catch (...) {
      held.lock();
      starting_ = false;
      throw;
    }
    held.lock();
    ++next_;
  }
  starting_ = false;
}

void GradientSync::start(Bucket& bucket) {
  bucket.start_ns = now();
  for (const Stream stream : bucket.streams) place_->follow(place_->own(), stream);
  if (hook_.start != nullptr) {
    await_stream(place_->own());
    const anello_bucket_t told = this->bucket(bucket.index);
    const anello_result_t result = hook_.start(hook_.context, &told, comm_, &bucket.request);
    if (result != ANELLO_OK) refuse(result, text(named(bucket), ": its hook ended with ", failure_of_hook(result)));
  } else {
    const anello_op_t op = config_.op == ANELLO_AVG && config_.average_over_active != 0 ? ANELLO_SUM : config_.op;
    const std::string label = text("bucket ", bucket.index);
    const std::string what = text("step ", steps_, ", ", named(bucket));
    if (place_->has_streams()) {
      all_.allreduce_on(place_->own(), bucket.data.get(), bucket.plan.count, bucket.wire, op, what, label.c_str());
    } else {
      all_.allreduce(bucket.data.get(), bucket.plan.count, bucket.wire, op, what, &bucket.request, label.c_str());
    }
  }
}

// One bit per parameter: whether any rank has a gradient for it. It comes after all buckets, so no bucket waits for it.
void GradientSync::start_used_map() {
  if (!exchanges_used()) return;
  if (!joined_) {
    std::fill(used_.begin(), used_.end(), std::uint8_t{0});
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].has_gradient) used_[i / 8] = static_cast<std::uint8_t>(used_[i / 8] | 1u << i % 8);
    }
  }
  all_.allreduce(used_.data(), used_.size(), ANELLO_UINT8, ANELLO_BOR, text("step ", steps_, ", used parameters"),
                 &used_request_);
}

// This also makes progress if the processors have no time for Anello's own thread.
void GradientSync::check_for_ends() {
  if (place_->has_streams()) return;
  const std::unique_lock mine(ends_, std::try_to_lock);
  if (!mine) return;
  for (;; ++oldest_) {
    Bucket* bucket = nullptr;
    {
      const std::lock_guard held(mutex_);
      if (oldest_ >= next_) return;
      bucket = buckets_[oldest_].get();
    }
    int done = 0;
    check(comm_, anello_test(&bucket->request, &done, nullptr), text("step ", steps_, ", ", named(*bucket)));
    if (done == 0) return;
    bucket->end_ns = now();
    bucket->ended = true;
  }
}

}  // namespace anello::gradient_sync
