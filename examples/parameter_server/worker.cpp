#include "worker.h"

#include <anello/sampler.h>

#include <stdexcept>
#include <string>

namespace parameter_server {

Worker::Worker(int number, int workers, const fashion::Dataset& training, const Settings& settings)
    : number_(number),
      workers_(workers),
      training_(training),
      settings_(settings),
      batches_(static_cast<std::int64_t>(training.size()) / workers / settings.batch),
      steps_(settings.steps > 0 ? settings.steps : settings.epochs * batches_) {
  if (batches_ == 0) {
    throw std::invalid_argument(std::to_string(training.size()) + " images are too few for a batch of " +
                                std::to_string(settings.batch) + " on each of " + std::to_string(workers) + " workers");
  }
}

double Worker::compute(fashion::Network& network, Eigen::VectorXf* gradient) {
  const std::int64_t at = step_ % batches_;
  if (at == 0) {
    anello_sampler_t sampler = ANELLO_SAMPLER_INITIALIZER;
    sampler.samples = static_cast<std::int64_t>(training_.size());
    sampler.rank = number_;
    sampler.world_size = workers_;
    sampler.seed = settings_.seed;
    sampler.drop_last = 1;
    std::size_t count = 0;
    check(ANELLO_COMM_NULL, anello_sampler_count(&sampler, &count), "counting images");
    drawn_.resize(count);
    check(ANELLO_COMM_NULL,
          anello_sampler_indices(&sampler, static_cast<std::uint64_t>(step_ / batches_ + 1), drawn_.data()),
          "drawing images");
  }
  ++step_;
  fashion::gather(training_, drawn_.data() + at * settings_.batch, static_cast<std::size_t>(settings_.batch), images_,
                  labels_);
  return network.gradient(images_, labels_, gradient, [](std::size_t) {});
}

void Worker::run(anello_comm_t all, Channel& channel, fashion::Network& network) {
  const anello_comm_t server = channel.handle();
  const auto count = static_cast<std::size_t>(network.parameters().size());
  Eigen::VectorXf gradient(network.parameters().size());
  while (step_ < steps_) {
    check(server, anello_recv(network.parameters().data(), count, ANELLO_FLOAT32, 0, kWeights, server, nullptr),
          "receiving weights");
    Announcement announcement{compute(network, &gradient), settings_.batch, 0};
    announcement.last = step_ == steps_;
    // The announcement follows when the server has the gradient, so the server never waits for a worker's transfer.
    check(server, anello_send(gradient.data(), count, ANELLO_FLOAT32, 0, kGradient, server), "sending a gradient");
    check(all, anello_send(&announcement, sizeof announcement, ANELLO_BYTE, 0, kAnnouncement, all),
          "sending a gradient");
  }
  check(server, anello_send(nullptr, 0, ANELLO_BYTE, 0, kEnd, server), "ending");
}

}  // namespace parameter_server
