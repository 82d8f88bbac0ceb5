#include "gradients.h"

#include <algorithm>
#include <cstdio>

namespace fashion {

Gradients::Gradients(Communicator& communicator, const std::vector<Network::Block>& blocks, Eigen::VectorXf& flat,
                     Sync sync, std::size_t bucket_bytes)
    : communicator_(communicator), blocks_(blocks), flat_(flat), ready_(blocks.size()) {
  if (sync == Sync::flat) return;
  std::vector<anello_tensor_t> parameters;
  for (const Network::Block& block : blocks_) {
    parameters.push_back({sizeof(anello_tensor_t), block.name.c_str(), flat_.data() + block.begin,
                          static_cast<std::size_t>(block.count), ANELLO_FLOAT32});
  }
  anello_gradient_sync_config_t config = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
  config.first_bucket_bytes = std::max<std::size_t>(bucket_bytes / 4, 1);
  config.bucket_bytes = bucket_bytes;
  communicator_.check("making buckets", anello_gradient_sync_create(communicator_.handle(), parameters.data(),
                                                                    parameters.size(), &config, &sync_));
}

Gradients::~Gradients() {
  // Its failures have already been reported.
  (void)anello_gradient_sync_destroy(sync_);
}

void Gradients::begin() {
  begun_ = Clock::now();
  if (sync_ != ANELLO_GRADIENT_SYNC_NULL) communicator_.check("beginning a step", anello_gradient_sync_begin(sync_, 0));
}

void Gradients::ready(std::size_t block) {
  const Clock::time_point start = Clock::now();
  ready_[block] = seconds(begun_, start);
  if (sync_ == ANELLO_GRADIENT_SYNC_NULL) return;
  communicator_.check("handing over a gradient", anello_gradient_sync_ready(sync_, block, nullptr));
  seconds_inside_ += seconds(start, Clock::now());
}

void Gradients::wait() {
  const Clock::time_point start = Clock::now();
  if (sync_ != ANELLO_GRADIENT_SYNC_NULL) {
    communicator_.check("averaging gradients", anello_gradient_sync_wait(sync_));
  } else {
    communicator_.average(flat_.data(), static_cast<std::size_t>(flat_.size()));
  }
  const Clock::time_point end = Clock::now();
  wait_from_ = seconds(begun_, start);
  wait_until_ = seconds(begun_, end);
  seconds_inside_ += wait_until_ - wait_from_;
  ++steps_;
}

std::size_t Gradients::buckets() const {
  std::size_t count = 0;
  if (sync_ != ANELLO_GRADIENT_SYNC_NULL)
    communicator_.check("counting buckets", anello_gradient_sync_bucket_count(sync_, &count));
  return count;
}

Timeline Gradients::timeline() const {
  Timeline timeline;
  timeline.end = wait_until_;
  double from = 0;
  // Goes backwards: each layer's biases are ready just before its weights.
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    timeline.rows.push_back({blocks_[i].name, Timeline::computing, from, ready_[i]});
    from = ready_[i];
  }
  if (sync_ == ANELLO_GRADIENT_SYNC_NULL) {
    timeline.rows.push_back({"all gradients", Timeline::sending, wait_from_, wait_until_});
  } else {
    for (std::size_t b = 0; b < buckets(); ++b) {
      anello_bucket_t bucket = ANELLO_BUCKET_INITIALIZER;
      communicator_.check("looking at buckets", anello_gradient_sync_bucket(sync_, b, &bucket));
      timeline.rows.push_back({"bucket " + std::to_string(b), Timeline::sending, double(bucket.start_ns) * 1e-9,
                               double(bucket.end_ns) * 1e-9});
    }
  }
  timeline.rows.push_back({"waiting", Timeline::waiting, from, wait_until_});  // after the computation has ended
  return timeline;
}

std::string Gradients::summary() {
  char line[512];
  if (sync_ == ANELLO_GRADIENT_SYNC_NULL) {
    std::snprintf(line, sizeof line,
                  "one all-reduce of %.1f KiB; per step %.2f ms under way, all of it waited for (0 %% hidden)",
                  double(flat_.size()) * 4 / 1024, 1e3 * seconds_inside_ / double(std::max<std::size_t>(steps_, 1)));
  } else {
    communicator_.check("summing up", anello_gradient_sync_summary(sync_, line, sizeof line));
  }
  return line;
}

}  // namespace fashion
