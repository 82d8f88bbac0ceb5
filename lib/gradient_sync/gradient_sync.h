#pragma once
// One rank's side of include/anello/gradient_sync.h. In a step, begin is called, gradients become ready and fill
// buckets (filling.cpp), full buckets start in order (starting.cpp), and wait copies the results out (finishing.cpp).
//
// On a device, gradients are copied in the streams in which they become ready. The place's own stream waits for them
// and runs the all-reduces, and the stream of wait_on waits for these and copies the results. The next step's first
// copies wait for a mark behind all that.
#include "base/error.h"
#include "gradient_sync/bucket.h"
#include "gradient_sync/collective.h"
#include "gradient_sync/loss_scaler.h"

#include <anello/gradient_sync.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace anello::gradient_sync {

struct Parameter {
  std::string name;
  void* data;
  std::size_t count;
  anello_dtype_t dtype;

  Bucket* bucket = nullptr;
  const Part* part = nullptr;
  bool has_gradient = false;  // in this step
  void* where = nullptr;      // its address; nullptr: not known yet
  void* checked = nullptr;    // an address that is known to be of the place
  Stream stream = nullptr;    // in which it became ready
  std::atomic<int> left{0};   // how many more times it must become ready in this step
  std::atomic<int> fired{0};  // how many times it became ready in the first step of a static graph
  int expected = 1;           // a step
  bool accumulated = false;   // a local step since the last step that was not local had a gradient
  std::size_t turn = 0;       // when it came in the first step
  bool used_anywhere = true;
  Memory spare;  // for a result for which this rank had neither gradient nor address

  Parameter(std::string its_name, void* its_data, std::size_t its_count, anello_dtype_t its_dtype)
      : name(std::move(its_name)), data(its_data), count(its_count), dtype(its_dtype) {}
};

class GradientSync {
 public:
  struct Setup {
    std::deque<Parameter> parameters;
    anello_gradient_sync_config_t config;
    std::unique_ptr<Place> place;
  };
  // Collective. read returns the caller's arguments after checking them; all ranks get its exceptions.
  static std::unique_ptr<GradientSync> create(anello_comm_t comm, const std::function<Setup()>& read);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // tensor returns the caller's i-th tensor after checking it; all ranks get its exceptions.
  void broadcast(std::size_t count, int root, const std::function<const anello_tensor_t&(std::size_t i)>& tensor);
  void begin(unsigned flags);
  void ready(std::size_t i, void* gradient, Stream stream);
  void unused(std::size_t i);
  void flush();
  void wait();
  void wait_on(Stream stream);
  bool test();
  int join();

  const void* result(std::size_t i, int* used) const;
  void* view(std::size_t i) const;
  bool overflow() const { return overflow_; }
  double loss_scale() const { return scaler_.scale(); }
  std::size_t bucket_count() const { return buckets_.size(); }
  anello_bucket_t bucket(std::size_t index) const;
  void set_hook(const anello_bucket_hook_t* hook);
  void statistics(anello_gradient_sync_statistics_t& to) const;
  std::string summary();

 private:
  GradientSync(anello_comm_t comm, int rank, int size) : comm_(comm), all_(comm), rank_(rank), size_(size) {}

  // gradient_sync.cpp
  template <class Body>
  auto final(Body&& body);
  void require_sound() const;
  void require_not_joined(const char* call) const;
  void require_between_steps(const char* call);
  [[noreturn]] void refuse(anello_result_t code, const std::string& why) const;
  void keep(const Error& error);
  std::string failure_of_hook(anello_result_t result) const;
  void check_index(std::size_t i) const;
  std::string named(const Bucket& bucket) const;
  void make_buckets();
  void rebuild();
  void enter_step();
  void leave_step();
  void exchange_presence(bool present, bool blocking);

  // filling.cpp
  bool is_static_first() const { return config_.static_graph != 0 && steps_ == 0; }
  bool may_be_unused() const { return config_.find_unused != 0 || config_.static_graph != 0; }
  bool exchanges_used() const { return config_.find_unused != 0 || is_static_first(); }
  void check_place(Parameter& parameter, void* where);
  void fill(Parameter& parameter);
  void use_stream(Bucket& bucket, Stream stream);
  void fill_unused(Parameter& parameter);
  void arrived(Parameter& parameter);
  void flush_all();

  // starting.cpp
  void is_full(Bucket& bucket);
  void start_full();
  void start(Bucket& bucket);
  void start_used_map();
  void check_for_ends();

  // finishing.cpp
  void enqueue_results(Stream stream);
  void conclude(Stream stream);
  void await(Bucket& bucket);
  bool checks_overflow() const { return config_.check_overflow != 0 || config_.loss_scale > 0; }
  void take_out(Parameter& parameter, Stream stream);
  template <class Body>
  void wait_for(Body&& body);
  void count_copy(const Parameter& parameter, std::int64_t start, bool moved);
  double factor_after() const;
  void follow_overflow();
  void count_step();

  std::int64_t now() const;  // since the step began
  void await_stream(Stream stream);
  void settle() noexcept;

  anello_comm_t comm_;
  Collectives all_;
  int rank_, size_;
  anello_gradient_sync_config_t config_ = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
  anello_bucket_hook_t hook_ = ANELLO_BUCKET_HOOK_INITIALIZER;
  std::unique_ptr<Place> place_;
  std::deque<Parameter> parameters_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  LossScaler scaler_;

  bool in_step_ = false, local_ = false, joined_ = false, overflow_ = false;
  bool has_results_ = false;  // of this step, or they are in a stream
  std::int64_t waited_ns_ = 0;
  std::uint64_t steps_ = 0;  // that were not local; equal on all ranks, because joined ranks keep counting
  std::int64_t begun_ns_ = 0;
  std::atomic<std::size_t> remaining_{0};  // parameters that are not ready yet
  std::vector<std::size_t> order_;         // the expected order of gradients
  std::atomic<std::size_t> came_{0};
  std::atomic<std::int64_t> last_ready_ns_{0};
  std::atomic<std::int64_t> sending_last_ns_{0};  // after it, within ready
  std::vector<std::uint8_t> used_;                // one bit each: this rank's, then of any rank
  anello_request_t used_request_ = ANELLO_REQUEST_NULL;
  std::vector<std::uint8_t> present_;  // ranks that still have data
  anello_request_t present_request_ = ANELLO_REQUEST_NULL;

  std::mutex mutex_;             // guards the five below, and buckets' full and streams
  std::vector<Stream> streams_;  // of this step's gradients
  std::size_t next_ = 0;         // bucket to start
  bool starting_ = false;        // whether a thread is starting buckets
  bool flushed_ = false;
  std::size_t oldest_ = 0;  // the first bucket that has started and is not known to have ended
  std::mutex ends_;         // the thread that checks this

  std::atomic<bool> failed_{false};
  mutable std::mutex error_mutex_;
  Error error_;

  std::atomic<std::int64_t> copying_ns_{0};
  std::atomic<std::uint64_t> copied_bytes_{0};
  anello_gradient_sync_statistics_t statistics_ = ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER;
};

// Its exception ends the object: it is kept, every later call throws it again, and the other ranks learn of it.
template <class Body>
auto GradientSync::final(Body&& body) {
  require_sound();
  try {
    return body();
  } catch (const Error& error) {
    keep(error);
    throw;
  } catch (const std::bad_alloc&) {
    keep({ANELLO_ERR_RESOURCE, "out of memory"});
    throw;
  } catch (const std::exception& error) {
    keep({ANELLO_ERR_INTERNAL, error.what()});
    throw;
  }
}

}  // namespace anello::gradient_sync
