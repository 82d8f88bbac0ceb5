#include "gradient_sync/gradient_sync.h"

#include "gradient_sync/agreement.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>

namespace anello::gradient_sync {
namespace {

std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Writes all of its bits.
std::string exactly(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::vector<std::string> described(const anello_gradient_sync_config_t& config) {
  return {text("first_bucket_bytes ", config.first_bucket_bytes),
          text("bucket_bytes ", config.bucket_bytes),
          text("rebuild ", config.rebuild != 0),
          text("views ", config.views != 0),
          text("find_unused ", config.find_unused != 0),
          text("static_graph ", config.static_graph != 0),
          text("delay ", config.delay != 0),
          text("op ", anello_op_name(config.op)),
          "prescale " + exactly(config.prescale),
          "postscale " + exactly(config.postscale),
          text("wire ", anello_dtype_name(config.wire)),
          text("error_feedback ", config.error_feedback != 0),
          text("uneven ", config.uneven != 0),
          text("average_over_active ", config.average_over_active != 0),
          text("check_overflow ", config.check_overflow != 0),
          "loss_scale " + exactly(config.loss_scale),
          text("loss_scale_interval ", config.loss_scale_interval),
          text("timeout_ms ", config.timeout_ms)};
}

std::vector<std::string> described(const std::deque<Parameter>& parameters) {
  std::vector<std::string> all;
  for (const Parameter& one : parameters) {
    all.push_back(text(one.name, " (", one.count, ' ', anello_dtype_name(one.dtype), ')'));
  }
  return all;
}

}  // namespace

std::unique_ptr<GradientSync> GradientSync::create(anello_comm_t comm, const std::function<Setup()>& read) {
  int rank = 0, size = 1;
  check(comm, anello_comm_rank(comm, &rank), "rank");
  check(comm, anello_comm_size(comm, &size), "size");
  anello_comm_t own = ANELLO_COMM_NULL;
  check(comm, anello_comm_dup(comm, &own), "copying the communicator");
  std::unique_ptr<GradientSync> made(new GradientSync(own, rank, size));
  std::optional<Error> objection;
  std::vector<std::string> options, parameters;
  try {
    Setup setup = read();
    made->parameters_ = std::move(setup.parameters);
    made->config_ = setup.config;
    made->place_ = std::move(setup.place);
    made->used_.resize((made->parameters_.size() + 7) / 8);
    made->present_.resize(std::size_t(made->size_));
    // The backward pass reaches the last layer first.
    made->order_.resize(made->parameters_.size());
    std::iota(made->order_.rbegin(), made->order_.rend(), std::size_t{0});
    options = described(made->config_);
    parameters = described(made->parameters_);
  } catch (const Error& error) {
    objection = error;
  } catch (const std::bad_alloc&) {
    objection = Error(ANELLO_ERR_RESOURCE, "no memory for what is kept of each parameter");
  }
  agree(made->all_, objection);
  agree_on(made->all_, "option", options);
  agree_on(made->all_, "parameter", parameters);
  made->all_.set_timeout(made->config_.timeout_ms);
  if (made->config_.loss_scale > 0) made->scaler_ = {made->config_.loss_scale, made->config_.loss_scale_interval};
  made->make_buckets();
  made->place_->set_mark(made->place_->own());
  return made;
}

GradientSync::~GradientSync() {
  // The others still wait for this step's buckets, even if none is in flight here.
  if (in_step_ && !local_) {
    const std::string why = text("rank ", rank_, " destroyed its gradient synchronizer in the middle of step ", steps_);
    anello_comm_abort(comm_, why.c_str());
  }
  anello_comm_destroy(comm_);
  // All operations have ended, so no thread uses the buckets any more. They are destroyed next.
  for (const auto& bucket : buckets_) anello_wait(&bucket->request, nullptr);
  anello_wait(&used_request_, nullptr);
  anello_wait(&present_request_, nullptr);
  settle();
}

// Streams still copy from and to the buckets. Memory that a hanging device may use is not given back (place.h).
void GradientSync::settle() noexcept {
  if (place_ == nullptr || !place_->has_streams()) return;
  try {
    for (const Stream stream : streams_) place_->follow(place_->own(), stream);
    const std::int64_t until = clock_ns() + 10'000'000'000;
    while (!place_->is_done(place_->own()) && clock_ns() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  } catch (const std::exception&) {
    // The device has failed.
  }
}

// ---- Errors ----------------------------------------------------------------------------------------------------

void GradientSync::require_sound() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard held(error_mutex_);
  throw error_;
}

void GradientSync::refuse(anello_result_t code, const std::string& why) const {
  throw Error(code, text("rank ", rank_, ", step ", steps_, ": ", why));
}

void GradientSync::keep(const Error& error) {
  const std::lock_guard held(error_mutex_);
  if (error_) return;
  error_ = error;
  failed_.store(true, std::memory_order_release);
  if (dynamic_cast<const Agreed*>(&error) != nullptr) return;
  // This does nothing if the communicator itself has failed.
  const std::string own = text("rank ", rank_);
  const std::string& said = error.text();
  anello_comm_abort(comm_, (said.compare(0, own.size(), own) == 0 ? said : own + ": " + said).c_str());
}

// Others may still be inside the join that this rank has left, so do not abort.
void GradientSync::require_not_joined(const char* call) const {
  if (joined_) throw Error(ANELLO_ERR_STATE, text(call, ": this rank has joined"));
}

void GradientSync::require_between_steps(const char* call) {
  if (in_step_ && !local_) refuse(ANELLO_ERR_STATE, text(call, ": step ", steps_, " was not waited for"));
}

std::string GradientSync::failure_of_hook(anello_result_t result) const {
  std::string said = anello_result_name(result);
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  if (anello_error_info(comm_, &error) == ANELLO_OK && error.code == result) said += text(": ", error.text);
  return said;
}

void GradientSync::check_index(std::size_t i) const {
  if (i >= parameters_.size()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("parameter ", i, ": there are ", parameters_.size(), ", counted from 0"));
  }
}

std::string GradientSync::named(const Bucket& bucket) const {
  const auto& name = [&](std::size_t at) -> const std::string& { return parameters_[bucket.parameters[at]].name; };
  if (bucket.parameters.size() == 1) return text("bucket ", bucket.index, " (", name(0), ')');
  return text("bucket ", bucket.index, " (", name(0), " to ", name(bucket.parameters.size() - 1), ')');
}

// ---- Buckets ---------------------------------------------------------------------------------------------------

void GradientSync::make_buckets() {
  std::vector<Sized> sizes;
  for (const Parameter& one : parameters_) sizes.push_back({one.count, one.dtype});
  std::vector<std::unique_ptr<Bucket>> made;
  std::optional<Error> objection;
  try {
    for (BucketPlan& plan : plan_buckets(sizes, order_, config_.first_bucket_bytes, config_.bucket_bytes)) {
      const anello_dtype_t wire = plan.dtype == ANELLO_FLOAT32 ? config_.wire : plan.dtype;
      made.push_back(std::make_unique<Bucket>(*place_, std::move(plan), made.size(), wire, config_.views != 0,
                                              config_.error_feedback != 0));
    }
  } catch (const Error& error) {
    objection = error;
  } catch (const std::bad_alloc&) {
    objection = Error(ANELLO_ERR_RESOURCE, "no memory for the buckets");
  }
  agree(all_, objection);
  for (const auto& bucket : made) {
    for (const Part& part : bucket->plan.parts) {
      Parameter& parameter = parameters_[part.parameter];
      if (parameter.bucket != nullptr) {
        const Bucket& old = *parameter.bucket;
        const std::size_t element = anello_dtype_size(parameter.dtype);
        if (config_.views != 0 && parameter.count > 0) {
          place_->copy(bucket->home(part), old.home(*parameter.part), parameter.count * element, place_->own());
          if (parameter.where != nullptr) parameter.where = bucket->home(part);  // of a local step before
        }
        if (float* const rest = bucket->rest(part))
          place_->copy(rest, old.rest(*parameter.part), parameter.count * sizeof *rest, place_->own());
      }
      parameter.bucket = bucket.get();
      parameter.part = &part;
    }
  }
  await_stream(place_->own());
  buckets_ = std::move(made);
}

// All ranks use rank 0's order, because buckets must start in the same order on all ranks.
void GradientSync::rebuild() {
  std::vector<std::uint64_t> order(order_.begin(), order_.end());
  all_.broadcast(order.data(), order.size(), ANELLO_UINT64, 0, "rank 0's order of gradients");
  order_.assign(order.begin(), order.end());
  make_buckets();
}

// ---- Steps -----------------------------------------------------------------------------------------------------

std::int64_t GradientSync::now() const { return clock_ns() - begun_ns_; }

void GradientSync::begin(unsigned flags) {
  if ((flags & ~ANELLO_GRADIENT_SYNC_LOCAL) != 0)
    throw Error(ANELLO_ERR_ARGUMENT, text("begin: flags ", flags, " has an unknown one"));
  require_not_joined("begin");
  final([&] {
    require_between_steps("begin");
    if (place_->has_streams()) check(comm_, anello_comm_async_error(comm_), text("before step ", steps_));
    begun_ns_ = clock_ns();
    local_ = (flags & ANELLO_GRADIENT_SYNC_LOCAL) != 0;
    if (!local_) {
      exchange_presence(true, false);
      enter_step();
    } else {
      ++statistics_.local_steps;
    }
    in_step_ = true;
  });
}

// Each rank reports in every step whether it has data, so ranks that have joined learn whether there is a step at all.
void GradientSync::exchange_presence(bool present, bool blocking) {
  if (config_.uneven == 0) return;
  present_[std::size_t(rank_)] = present;
  all_.allgather(present_.data(), 1, ANELLO_UINT8, "who has data", blocking ? nullptr : &present_request_);
}

void GradientSync::enter_step() {
  if (config_.rebuild != 0 && steps_ == 1) rebuild();
  for (const auto& bucket : buckets_) bucket->enter_step();
  for (Parameter& one : parameters_) {
    one.left.store(one.expected, std::memory_order_relaxed);
    if (!one.accumulated) one.where = nullptr;
    one.has_gradient = false;
    if (config_.static_graph == 0 || steps_ == 0) one.used_anywhere = true;
  }
  remaining_.store(parameters_.size(), std::memory_order_relaxed);
  came_.store(0, std::memory_order_relaxed);
  last_ready_ns_.store(0, std::memory_order_relaxed);
  sending_last_ns_.store(0, std::memory_order_relaxed);
  next_ = oldest_ = 0;
  flushed_ = has_results_ = false;
  waited_ns_ = 0;
  streams_.clear();
  // A parameter that never has a gradient in a static graph is ready at once.
  if (config_.static_graph != 0 && steps_ > 0) {
    for (Parameter& one : parameters_) {
      if (one.expected == 0 && !joined_) fill_unused(one);
    }
  }
}

void GradientSync::leave_step() {
  streams_.clear();
  if (steps_ == 0 && !joined_) {
    // Parameters without a gradient come last.
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return parameters_[a].turn < parameters_[b].turn; });
  }
  for (Parameter& one : parameters_) one.accumulated = false;
  ++steps_;
  in_step_ = false;
}

int GradientSync::join() {
  require_not_joined("join");
  return final([&] {
    require_between_steps("join");
    if (config_.uneven == 0) refuse(ANELLO_ERR_STATE, "join: the config does not set uneven");
    joined_ = true;
    const auto highest_present = [&] {
      int highest = -1;
      for (int r = 0; r < size_; ++r) {
        if (present_[std::size_t(r)] != 0) highest = r;
      }
      return highest;
    };
    for (;;) {
      begun_ns_ = clock_ns();
      const int last = highest_present();
      exchange_presence(false, true);
      if (highest_present() < 0) return last;
      enter_step();
      for (const auto& bucket : buckets_) {
        place_->zero(bucket->data.get(), bucket->plan.count * anello_dtype_size(bucket->wire), place_->own());
        bucket->full = true;
      }
      std::fill(used_.begin(), used_.end(), std::uint8_t{0});
      flushed_ = true;
      start_full();
      for (const auto& bucket : buckets_) await(*bucket);
      await_stream(place_->own());
      check(comm_, anello_wait(&used_request_, nullptr), "used parameters");
      leave_step();
    }
  });
}

// ---- Questions -------------------------------------------------------------------------------------------------

const void* GradientSync::result(std::size_t i, int* used) const {
  check_index(i);
  require_sound();
  const Parameter& one = parameters_[i];
  if (in_step_) throw Error(ANELLO_ERR_STATE, text("result: step ", steps_, " was not waited for"));
  if (used != nullptr) *used = one.used_anywhere ? 1 : 0;
  return config_.views != 0 ? one.bucket->home(*one.part) : one.where;
}

void* GradientSync::view(std::size_t i) const {
  check_index(i);
  if (config_.views == 0) throw Error(ANELLO_ERR_STATE, "view: the config does not set views");
  return parameters_[i].bucket->home(*parameters_[i].part);
}

anello_bucket_t GradientSync::bucket(std::size_t index) const {
  if (index >= buckets_.size())
    throw Error(ANELLO_ERR_ARGUMENT, text("bucket ", index, ": there are ", buckets_.size(), ", counted from 0"));
  const Bucket& it = *buckets_[index];
  return {sizeof(anello_bucket_t), index,       it.data.get(), it.plan.count, it.wire, it.parameters.data(),
          it.parameters.size(),    it.ready_ns, it.start_ns,   it.end_ns};
}

void GradientSync::set_hook(const anello_bucket_hook_t* hook) {
  require_sound();
  require_not_joined("set_hook");
  if (in_step_ && !local_) throw Error(ANELLO_ERR_STATE, text("set_hook: step ", steps_, " was not waited for"));
  hook_ = hook == nullptr ? anello_bucket_hook_t ANELLO_BUCKET_HOOK_INITIALIZER : *hook;
}

}  // namespace anello::gradient_sync
