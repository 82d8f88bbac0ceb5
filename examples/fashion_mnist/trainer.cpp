#include "trainer.h"

#include <anello/sampler.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace fashion {
namespace {

std::vector<int> widths_of(const Settings& settings) {
  std::vector<int> widths = {kPixels};
  widths.insert(widths.end(), settings.hidden.begin(), settings.hidden.end());
  widths.push_back(kKinds);
  return widths;
}

}  // namespace

Trainer::Trainer(Communicator& communicator, const Dataset& training, const Dataset& test, const Settings& settings)
    : communicator_(communicator),
      training_(training),
      test_(test),
      settings_(settings),
      network_(widths_of(settings)) {
  const int parts = communicator.size() * settings.micro_batches;
  if (settings.batch % parts != 0) {
    throw std::invalid_argument("a batch of " + std::to_string(settings.batch) +
                                " images does not divide evenly into " + std::to_string(parts) +
                                " parts (ranks times micro-batches)");
  }
  if (static_cast<std::size_t>(settings.batch) > training.size()) {
    throw std::invalid_argument("a batch is larger than the training set");
  }
  if (communicator.rank() == 0) network_.randomize(settings.seed);
  communicator_.broadcast(network_.parameters().data(), parameter_count());
  velocity_ = Eigen::VectorXf::Zero(network_.parameters().size());
  gradient_ = Eigen::VectorXf::Zero(network_.parameters().size());
  gradients_.emplace(communicator, network_.blocks(), gradient_, settings.sync, settings.bucket_bytes);
}

// A micro-batch draws the images that a separate rank would draw, so that many ranks and many micro-batches see the
// same images.
void Trainer::draw_images(int epoch) {
  anello_sampler_t sampler = ANELLO_SAMPLER_INITIALIZER;
  sampler.samples = static_cast<std::int64_t>(training_.size());
  sampler.world_size = communicator_.size() * settings_.micro_batches;
  sampler.seed = settings_.seed;
  sampler.drop_last = 1;
  std::size_t count = 0;
  communicator_.check("counting images", anello_sampler_count(&sampler, &count));
  drawn_.assign(static_cast<std::size_t>(settings_.micro_batches), std::vector<std::int64_t>(count));
  for (int m = 0; m < settings_.micro_batches; ++m) {
    sampler.rank = communicator_.rank() * settings_.micro_batches + m;
    communicator_.check("drawing images", anello_sampler_indices(&sampler, static_cast<std::uint64_t>(epoch),
                                                                 drawn_[static_cast<std::size_t>(m)].data()));
  }
}

double Trainer::compute_gradient(std::size_t b) {
  const int micro_batches = settings_.micro_batches;
  const auto images = static_cast<std::size_t>(images_per_rank() / micro_batches);
  const std::vector<Network::Block> blocks = network_.blocks();
  double loss = 0;
  for (int m = 0; m < micro_batches; ++m) {
    gather(training_, drawn_[static_cast<std::size_t>(m)].data() + b * images, images, images_, labels_);
    const bool last = m + 1 == micro_batches;
    loss += network_.gradient(images_, labels_, m == 0 ? &gradient_ : &micro_gradient_, [&](std::size_t i) {
      auto sum = gradient_.segment(blocks[i].begin, blocks[i].count);
      if (m > 0) sum += micro_gradient_.segment(blocks[i].begin, blocks[i].count);
      // As in ANELLO_AVG, the sum is formed in order and then divided once. Under ANELLO_INVARIANT=1, a rank that
      // reduces its micro-batches in this way gets the same bits as that many ranks with one micro-batch each.
      if (last && m > 0) sum = sum.array() / static_cast<float>(micro_batches);
      if (last) gradients_->ready(i);
    });
  }
  return loss;
}

double Trainer::measure_accuracy() {
  // Test images are spread over the ranks as evenly as possible, and tested a thousand at a time.
  constexpr std::size_t kAtOnce = 1000;
  const auto rank = static_cast<std::size_t>(communicator_.rank());
  const auto size = static_cast<std::size_t>(communicator_.size());
  const std::size_t begin = test_.size() * rank / size, end = test_.size() * (rank + 1) / size;
  std::vector<std::int64_t> chosen(end - begin);
  std::iota(chosen.begin(), chosen.end(), static_cast<std::int64_t>(begin));
  std::int64_t correct = 0;
  for (std::size_t first = 0; first < chosen.size(); first += kAtOnce) {
    gather(test_, chosen.data() + first, std::min(kAtOnce, chosen.size() - first), images_, labels_);
    correct += network_.count_correct(images_, labels_);
  }
  communicator_.sum(&correct, 1);
  return static_cast<double>(correct) / static_cast<double>(test_.size());
}

EpochReport Trainer::run_epoch(int epoch) {
  EpochReport report;
  report.epoch = epoch;
  const auto batch = static_cast<std::size_t>(settings_.batch);
  const std::size_t batches = training_.size() / batch;  // an incomplete last batch is skipped; the next epoch draws
                                                         // again
  draw_images(epoch);
  const auto updates = static_cast<float>(batches * static_cast<std::size_t>(settings_.epochs));

  const Clock::time_point start = Clock::now();
  const double inside_before = gradients_->seconds_inside();
  double loss = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    gradients_->begin();
    loss += compute_gradient(b);
    gradients_->wait();
    const auto done = static_cast<float>(static_cast<std::size_t>(epoch - 1) * batches + b);
    const float rate = settings_.learning_rate * (1.0f - done / updates);
    velocity_ = settings_.momentum * velocity_ + gradient_;
    network_.parameters() -= rate * velocity_;
  }
  communicator_.sum(&loss, 1);
  const double taken = seconds(start, Clock::now());
  report.communicating = (gradients_->seconds_inside() - inside_before) / taken;
  report.images_per_s = static_cast<double>(batches * batch) / taken;
  report.loss = loss / static_cast<double>(batches * batch);

  report.accuracy = measure_accuracy();
  report.hash = hash_of(network_.parameters());
  const std::vector<std::int64_t> hashes = communicator_.gather(static_cast<std::int64_t>(report.hash));
  report.equal = std::all_of(hashes.begin(), hashes.end(), [&](std::int64_t hash) { return hash == hashes.front(); });
  return report;
}

}  // namespace fashion
