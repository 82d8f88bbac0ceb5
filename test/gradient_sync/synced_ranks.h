#pragma once
// A model on every rank of a test: parameters with gradients whose averages are known without computing them twice.
#include "support/thread_ranks.h"

#include <anello/gradient_sync.h>

#include <cstring>
#include <string>
#include <vector>

namespace anello::test {

inline anello_gradient_sync_config_t small_buckets() {
  anello_gradient_sync_config_t config = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
  config.first_bucket_bytes = 2048;
  config.bucket_bytes = 64 * 1024;
  return config;
}

inline const std::vector<std::size_t>& counts() {
  static const std::vector<std::size_t> all = {1000, 3, 30000, 0, 513, 70000, 16, 1};
  return all;
}

// Whole numbers, so that sums are exact.
inline float gradient_of(int rank, std::size_t parameter, std::size_t element, int step) {
  return static_cast<float>(
      static_cast<int>((parameter * 31 + element * 7 + std::size_t(rank) * 13 + std::size_t(step) * 5) % 97) - 48);
}

inline float sum_of(int ranks, std::size_t parameter, std::size_t element, int step) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += gradient_of(r, parameter, element, step);
  return sum;
}

// One rank's parameters and its synchronizer.
class Model {
 public:
  Model(const Rank& rank, const std::vector<std::size_t>& sizes = counts()) : rank_(rank) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      names_.push_back("layer" + std::to_string(i));
      gradients_.emplace_back(sizes[i], -1.0f);
    }
  }
  ~Model() {
    if (sync != ANELLO_GRADIENT_SYNC_NULL) ok(anello_gradient_sync_destroy(sync), "destroy");
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  anello_result_t create(const anello_gradient_sync_config_t& config) {
    views_ = config.views != 0;
    const std::vector<anello_tensor_t> tensors = parameters();
    return anello_gradient_sync_create(rank_.comm, tensors.data(), tensors.size(), &config, &sync);
  }
  std::vector<anello_tensor_t> parameters() {
    std::vector<anello_tensor_t> tensors;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      tensors.push_back(
          {sizeof(anello_tensor_t), names_[i].c_str(), gradients_[i].data(), gradients_[i].size(), ANELLO_FLOAT32});
    }
    return tensors;
  }

  std::size_t size() const { return names_.size(); }
  std::string& name(std::size_t i) { return names_[i]; }
  std::size_t count(std::size_t i) const { return gradients_[i].size(); }
  float* gradient(std::size_t i) {
    if (!views_) return gradients_[i].data();
    void* view = nullptr;
    ok(anello_gradient_sync_view(sync, i, &view), "view");
    return static_cast<float*>(view);
  }
  void compute(std::size_t i, int step) {
    float* const to = gradient(i);
    for (std::size_t e = 0; e < count(i); ++e) to[e] = gradient_of(rank_.rank, i, e, step);
  }
  void begin(unsigned flags = 0) { ok(anello_gradient_sync_begin(sync, flags), "begin"); }
  void ready(std::size_t i) { ok(anello_gradient_sync_ready(sync, i, nullptr), "ready " + std::to_string(i)); }
  void wait() { ok(anello_gradient_sync_wait(sync), "wait"); }
  // Backwards, as most programs do.
  void step(int number) {
    begin();
    for (std::size_t i = size(); i-- > 0;) {
      compute(i, number);
      ready(i);
    }
    wait();
  }

  // Each element must be value(parameter, element).
  template <class Value>
  void expect(const std::string& what, Value&& value) {
    for (std::size_t i = 0; i < size(); ++i) {
      const float* const got = gradient(i);
      for (std::size_t e = 0; e < count(i); ++e) {
        const float wanted = value(i, e);
        if (std::memcmp(&got[e], &wanted, sizeof wanted) == 0) continue;
        rank_.report.wrong("rank ", rank_.rank, ", ", what, ": ", names_[i], '[', e, "] is ", got[e], ", not ", wanted);
        return;
      }
    }
  }
  void expect_average(int step) {
    expect("step " + std::to_string(step),
           [&](std::size_t i, std::size_t e) { return sum_of(rank_.size, i, e, step) / float(rank_.size); });
  }

  void ok(anello_result_t result, const std::string& what) { fails(result, ANELLO_OK, what); }
  void fails(anello_result_t result, anello_result_t code, const std::string& what, const std::string& says = "") {
    const std::string said = result == ANELLO_OK ? "" : anello_last_error(ANELLO_COMM_NULL);
    if (result != code) {
      rank_.report.wrong("rank ", rank_.rank, ", ", what, ": ", anello_result_name(result), " in place of ",
                         anello_result_name(code), ": ", said);
    } else if (said.find(says) == std::string::npos) {
      rank_.report.wrong("rank ", rank_.rank, ", ", what, ": its text has no \"", says, "\": ", said);
    }
  }
  void require(bool holds, const std::string& what) {
    if (!holds) rank_.report.wrong("rank ", rank_.rank, ": ", what);
  }

  anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;

 private:
  const Rank& rank_;
  bool views_ = false;
  std::vector<std::string> names_;
  std::vector<std::vector<float>> gradients_;
};

}  // namespace anello::test
