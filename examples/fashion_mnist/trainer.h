#pragma once
// Data-parallel training: every rank holds all parameters, computes the gradient over its part of each batch, and
// applies the average of all ranks' gradients, so that parameters stay equal without being sent again. Anello's sampler
// chooses its part of the images, as PyTorch's DistributedSampler would.
#include "communicator.h"
#include "dataset.h"
#include "gradients.h"
#include "network.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fashion {

struct Settings {
  int epochs = 5;
  int batch = 200;  // images of one update, over all ranks
  int micro_batches = 1;
  float learning_rate = 0.05f;  // of the first update; falls linearly to 0
  float momentum = 0.9f;
  std::uint64_t seed = 1;
  std::vector<int> hidden = {128, 64};
  Sync sync = Sync::buckets;
  std::size_t bucket_bytes = 256 * 1024;
};

struct EpochReport {
  int epoch = 0;             // from 1
  double loss = 0;           // mean over the epoch's images, at the time of their training
  double accuracy = 0;       // share of the test images, 0 to 1
  double images_per_s = 0;   // over all ranks, training only
  double communicating = 0;  // share of this rank's training time spent in Anello, 0 to 1
  bool equal = false;        // whether all ranks have the same bits
  std::uint64_t hash = 0;    // of this rank's parameters
};

class Trainer {
 public:
  // Throws std::invalid_argument if the batch does not divide evenly. Collective: rank 0's parameters are sent to all.
  Trainer(Communicator& communicator, const Dataset& training, const Dataset& test, const Settings& settings);

  EpochReport run_epoch(int epoch);  // from 1. Collective.
  std::size_t parameter_count() const { return static_cast<std::size_t>(network_.parameters().size()); }
  int images_per_rank() const { return settings_.batch / communicator_.size(); }
  const Gradients& gradients() const { return *gradients_; }
  std::string summary() { return gradients_->summary(); }  // collective

 private:
  // Computes this rank's mean gradient over its part of batch b into gradient_ and passes it on block by block; returns
  // the summed loss.
  double compute_gradient(std::size_t b);
  void draw_images(int epoch);
  double measure_accuracy();

  Communicator& communicator_;
  const Dataset& training_;
  const Dataset& test_;
  const Settings settings_;
  Network network_;
  std::vector<std::vector<std::int64_t>> drawn_;  // for each micro-batch, its images of the epoch
  Eigen::VectorXf gradient_;
  std::optional<Gradients> gradients_;
  Eigen::VectorXf micro_gradient_;
  Eigen::VectorXf velocity_;
  Eigen::MatrixXf images_;
  std::vector<int> labels_;
};

}  // namespace fashion
