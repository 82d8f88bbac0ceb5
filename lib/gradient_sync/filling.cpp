// Copies gradients into buckets.
#include "gradient_sync/gradient_sync.h"

#include <algorithm>

namespace anello::gradient_sync {

void GradientSync::ready(std::size_t i, void* gradient, Stream stream) {
  check_index(i);
  Parameter& one = parameters_[i];
  void* where = config_.views != 0 ? one.bucket->home(*one.part) : gradient != nullptr ? gradient : one.data;
  if (config_.views != 0 && gradient != nullptr && gradient != where) {
    throw Error(ANELLO_ERR_ARGUMENT, text("ready: the gradient of ", one.name, " lives in a view; pass NULL"));
  }
  if (where == nullptr && one.count > 0) {
    throw Error(ANELLO_ERR_ARGUMENT,
                text("ready: the gradient of ", one.name, " has no address: its data and the argument are NULL"));
  }
  if (config_.views == 0) check_place(one, where);
  final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, text(one.name, " became ready before begin"));
    one.stream = stream;
    if (local_) {
      one.where = where;
      one.accumulated = true;
      return;
    }
    if (is_static_first()) {
      if (flushed_) refuse(ANELLO_ERR_STATE, text(one.name, " became ready after flush"));
      one.where = where;
      one.fired.fetch_add(1, std::memory_order_relaxed);
      one.turn = came_.fetch_add(1, std::memory_order_relaxed);
      last_ready_ns_.store(now(), std::memory_order_relaxed);
      return;
    }
    const int left = one.left.fetch_sub(1, std::memory_order_acq_rel);
    if (left < 1) {
      refuse(ANELLO_ERR_STATE, config_.static_graph == 0
                                   ? text(one.name,
                                          " became ready twice, or after flush had declared it unused; if the "
                                          "graph uses a parameter several times, set static_graph")
                                   : text(one.name, " became ready more often than in the first step, where it did ",
                                          one.expected, " times: the graph is not static"));
    }
    if (left > 1) return;
    one.where = where;
    one.turn = came_.fetch_add(1, std::memory_order_relaxed);
    fill(one);
    const std::int64_t there = now();
    last_ready_ns_.store(there, std::memory_order_relaxed);
    arrived(one);
    check_for_ends();
    // The computation has ended, so it no longer hides the data that has just been sent.
    if (remaining_.load(std::memory_order_acquire) == 0)
      sending_last_ns_.store(now() - there, std::memory_order_relaxed);
  });
}

void GradientSync::unused(std::size_t i) {
  check_index(i);
  Parameter& one = parameters_[i];
  final([&] {
    if (!may_be_unused())
      refuse(ANELLO_ERR_STATE, text(one.name, " is unused, but the config sets neither find_unused nor static_graph"));
    if (!in_step_) refuse(ANELLO_ERR_STATE, text(one.name, " was declared unused before begin"));
    if (local_ || is_static_first()) return;
    if (config_.static_graph != 0) {
      if (one.expected > 0)
        refuse(ANELLO_ERR_STATE, text(one.name, " is unused, but was not in the first step: the graph is not static"));
      return;
    }
    if (one.left.fetch_sub(1, std::memory_order_acq_rel) < 1)
      refuse(ANELLO_ERR_STATE, text(one.name, " is unused, but was ready before"));
    fill_unused(one);
  });
}

// Asking a driver takes a microsecond, and most gradients stay where they are.
void GradientSync::check_place(Parameter& one, void* where) {
  if (where == one.checked) return;
  place_->check(where, one.count * anello_dtype_size(one.dtype), "ready: the gradient of " + one.name);
  one.checked = where;
}

// The bucket waits for what the stream does until now; the stream waits for the last step.
void GradientSync::use_stream(Bucket& bucket, Stream stream) {
  const auto add_to = [&](std::vector<Stream>& streams) {
    if (std::find(streams.begin(), streams.end(), stream) != streams.end()) return false;
    streams.push_back(stream);
    return true;
  };
  const std::lock_guard held(mutex_);
  if (add_to(streams_)) place_->follow_mark(stream);
  add_to(bucket.streams);
}

// Copies it into the bucket, multiplied and rounded. If the gradient lives in the data to send, there is nothing else
// to do.
void GradientSync::fill(Parameter& one) {
  const std::int64_t start = now();
  one.has_gradient = true;
  Bucket& bucket = *one.bucket;
  if (place_->has_streams()) use_stream(bucket, one.stream);
  std::byte* const to = bucket.sent(*one.part);
  float* const rest = bucket.rest(*one.part);
  if (rest != nullptr || one.where != to || config_.prescale != 1)
    place_->move({one.where, one.dtype, to, bucket.wire, one.count, config_.prescale, rest}, one.stream);
  count_copy(one, start, one.where != to);
}

// There is no gradient in this step; the gradient that earlier local steps have accumulated is still sent.
void GradientSync::fill_unused(Parameter& one) {
  if (one.accumulated) {
    fill(one);
  } else {
    Bucket& bucket = *one.bucket;
    place_->zero(bucket.sent(*one.part), one.count * anello_dtype_size(bucket.wire), place_->own());
    if (config_.views != 0)
      place_->zero(bucket.home(*one.part), one.count * anello_dtype_size(one.dtype), place_->own());
    one.turn = parameters_.size();
  }
  arrived(one);
}

// The parameter is in its bucket: a gradient, or zeros.
void GradientSync::arrived(Parameter& one) {
  remaining_.fetch_sub(1, std::memory_order_acq_rel);
  if (one.bucket->missing.fetch_sub(1, std::memory_order_acq_rel) == 1) is_full(*one.bucket);
}

void GradientSync::flush() {
  final([&] {
    if (!in_step_) refuse(ANELLO_ERR_STATE, "flush before begin");
    if (!local_) flush_all();
  });
}

void GradientSync::flush_all() {
  if (flushed_) return;
  if (is_static_first()) {
    for (Parameter& one : parameters_) {
      one.expected = one.fired.load(std::memory_order_relaxed);
      if (one.expected == 0) {
        fill_unused(one);
      } else {
        fill(one);
        arrived(one);
      }
    }
  } else if (remaining_.load(std::memory_order_acquire) > 0) {
    std::string names;
    std::size_t missing = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& one = parameters_[i];
      if (one.left.load(std::memory_order_acquire) < 1) continue;
      if (config_.find_unused != 0) {
        unused(i);
      } else if (++missing <= 5) {
        names += (missing > 1 ? ", " : "") + one.name;
      }
    }
    if (missing > 5) names += text(" and ", missing - 5, " more");
    if (missing > 0) {
      refuse(ANELLO_ERR_STATE,
             text("no gradient of ", names,
                  config_.static_graph != 0 ? ", which the first step had: the graph is not static"
                                            : "; if a step may leave parameters out, set find_unused"));
    }
  }
  {
    const std::lock_guard held(mutex_);
    flushed_ = true;
    if (starting_) return;
    starting_ = true;
  }
  start_full();
}

}  // namespace anello::gradient_sync
