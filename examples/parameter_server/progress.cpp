#include "progress.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

namespace parameter_server {
namespace {

double accuracy_of(fashion::Network& network, const fashion::Dataset& test) {
  constexpr std::size_t kAtOnce = 1000;
  std::vector<std::int64_t> chosen(test.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  Eigen::MatrixXf images;
  std::vector<int> labels;
  std::int64_t correct = 0;
  for (std::size_t first = 0; first < chosen.size(); first += kAtOnce) {
    fashion::gather(test, chosen.data() + first, std::min(kAtOnce, chosen.size() - first), images, labels);
    correct += network.count_correct(images, labels);
  }
  return static_cast<double>(correct) / static_cast<double>(test.size());
}

// "stale 90 of 120 gradients: 1.5 updates on average, 3 at most"
std::string text_of(const std::vector<std::int64_t>& staleness) {
  std::int64_t all = 0, updates = 0;
  for (std::size_t n = 0; n < staleness.size(); ++n) {
    all += staleness[n];
    updates += staleness[n] * static_cast<std::int64_t>(n);
  }
  if (all == 0) return "no gradient";
  char text[120];
  std::snprintf(text, sizeof text, "stale %lld of %lld gradients: %.2f updates on average, %zu at most",
                static_cast<long long>(all - staleness[0]), static_cast<long long>(all),
                static_cast<double>(updates) / static_cast<double>(all), staleness.size() - 1);
  return text;
}

}  // namespace

std::string name_of(Mode mode) {
  switch (mode) {
    case Mode::synchronous: return "sync";
    case Mode::asynchronous: return "async";
    case Mode::compensated: return "dc-asgd";
    case Mode::allreduce: break;
  }
  return "allreduce";
}

Progress::Progress(const Settings& settings, std::int64_t images, int workers, const fashion::Dataset* test)
    : settings_(settings),
      images_per_epoch_(images),
      images_planned_(settings.steps > 0 ? std::int64_t{settings.steps} * settings.batch * workers
                                         : images * settings.epochs),
      workers_(workers),
      test_images_(test) {}

float Progress::rate() const {
  const double done = static_cast<double>(images_) / static_cast<double>(images_planned_);
  return settings_.learning_rate * static_cast<float>(std::max(0.0, 1 - done));
}

void Progress::count_gradient(std::int64_t images, double loss, std::int64_t staleness) {
  ++gradients_;
  images_ += images;
  loss_ += loss;
  const auto n = static_cast<std::size_t>(staleness);
  if (staleness_.size() <= n) staleness_.resize(n + 1);
  ++staleness_[n];
}

void Progress::count_update(fashion::Network& network) {
  ++updates_;
  const auto epoch = static_cast<std::int64_t>(epochs_.size()) + 1;
  if (images_ >= std::min(epoch * images_per_epoch_, images_planned_)) test(network);
}

void Progress::test(fashion::Network& network) {
  if (test_images_ == nullptr || images_ == images_before_) return;
  const Clock::time_point begun = Clock::now();
  const double until = seconds();
  const auto images = static_cast<double>(images_ - images_before_);
  epochs_.push_back({loss_ / images, accuracy_of(network, *test_images_), images / (until - seconds_before_)});
  const Epoch& last = epochs_.back();
  std::printf("epoch %zu  loss %.4f  test accuracy %.2f %%  %.0f images/s  %s\n", epochs_.size(), last.loss,
              100 * last.accuracy, last.images_per_s, text_of(staleness_).c_str());
  std::fflush(stdout);
  loss_ = 0;
  images_before_ = images_;
  seconds_before_ = until;
  aside_ += Clock::now() - begun;
}

void Progress::lose(int worker, int left, const char* why) {
  lost_.push_back(worker);
  std::printf("worker %d is lost, and %d %s on: %s\n", worker, left, left == 1 ? "goes" : "go", why);
  std::fflush(stdout);
}

nlohmann::json Progress::report(const fashion::Network& network) const {
  nlohmann::json epochs = nlohmann::json::array();
  for (const Epoch& each : epochs_) {
    epochs.push_back({{"loss", each.loss}, {"accuracy", each.accuracy}, {"images_per_s", each.images_per_s}});
  }
  return {{"mode", name_of(settings_.mode)},
          {"workers", workers_},
          {"parameters", network.parameters().size()},
          {"gradients", gradients_},
          {"updates", updates_},
          {"staleness", staleness_},
          {"lost", lost_},
          {"seconds", seconds()},
          {"epochs", epochs}};
}

}  // namespace parameter_server
