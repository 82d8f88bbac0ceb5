#pragma once
// A rank that computes gradients over its share of the images.
#include "channel.h"
#include "dataset.h"
#include "network.h"
#include "settings.h"

#include <cstdint>
#include <vector>

namespace parameter_server {

class Worker {
 public:
  // number: 0..workers-1. Throws std::invalid_argument if there is no batch for it.
  Worker(int number, int workers, const fashion::Dataset& training, const Settings& settings);

  std::int64_t steps() const { return steps_; }
  std::int64_t batches() const { return batches_; }  // of an epoch
  // The gradient of the next batch's mean loss; returns the summed loss.
  double compute(fashion::Network& network, Eigen::VectorXf* gradient);
  // Receives weights from the server and sends it gradients, so many as there are steps.
  void run(anello_comm_t all, Channel& channel, fashion::Network& network);

 private:
  const int number_, workers_;
  const fashion::Dataset& training_;
  const Settings& settings_;
  std::vector<std::int64_t> drawn_;  // this epoch's images
  std::int64_t batches_, steps_, step_ = 0;
  Eigen::MatrixXf images_;
  std::vector<int> labels_;
};

}  // namespace parameter_server
