#pragma once
// What the rank that holds the weights counts and prints.
#include "dataset.h"
#include "network.h"
#include "settings.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace parameter_server {

class Progress {
 public:
  // images: of an epoch, over all workers. test: null on a rank that only counts.
  Progress(const Settings& settings, std::int64_t images, int workers, const fashion::Dataset* test);

  // Time counts from here.
  void begin() { begun_ = Clock::now(); }
  // The next update's learning rate.
  float rate() const;
  std::int64_t updates() const { return updates_; }

  // A gradient that was computed with weights that lacked so many of the updates before it.
  void count_gradient(std::int64_t images, double loss, std::int64_t staleness);
  // After each update. Tests the network at the end of an epoch.
  void count_update(fashion::Network& network);
  // Prints what the network knows, unless nothing was learned since the last test. That time does not count.
  void test(fashion::Network& network);
  void lose(int worker, int left, const char* why);
  nlohmann::json report(const fashion::Network& network) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Epoch {
    double loss, accuracy, images_per_s;
  };
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_ - aside_).count(); }

  const Settings& settings_;
  const std::int64_t images_per_epoch_, images_planned_;
  const int workers_;
  const fashion::Dataset* const test_images_;
  Clock::time_point begun_ = Clock::now();
  Clock::duration aside_{};  // spent on tests
  std::int64_t updates_ = 0, gradients_ = 0, images_ = 0;
  std::vector<std::int64_t> staleness_;  // [n]: gradients that lacked n updates
  std::vector<int> lost_;
  std::vector<Epoch> epochs_;
  double loss_ = 0, seconds_before_ = 0;  // of this epoch; until this epoch
  std::int64_t images_before_ = 0;
};

}  // namespace parameter_server
