// Trains on Fashion-MNIST with a parameter server. Rank 0 prints.
#include "communicator.h"
#include "options.h"
#include "server.h"
#include "worker.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

namespace parameter_server {
namespace {

constexpr std::size_t kQuickImages = 12000;

fashion::Network network_of(const Settings& settings) {
  std::vector<int> widths = {fashion::kPixels};
  widths.insert(widths.end(), settings.hidden.begin(), settings.hidden.end());
  widths.push_back(fashion::kKinds);
  return fashion::Network(std::move(widths));
}

void run_without_server(fashion::Communicator& all, Worker worker, fashion::Network& network, const Settings& settings,
                        Progress& progress) {
  all.broadcast(network.parameters().data(), static_cast<std::size_t>(network.parameters().size()));
  Eigen::VectorXf gradient(network.parameters().size());
  progress.begin();
  double loss = 0;
  for (std::int64_t step = 1; step <= worker.steps(); ++step) {
    loss += worker.compute(network, &gradient);
    all.average(gradient.data(), static_cast<std::size_t>(gradient.size()));
    network.parameters() -= progress.rate() * gradient;
    const bool tested = step % worker.batches() == 0 || step == worker.steps();
    if (tested) all.sum(&loss, 1);
    progress.count_gradient(std::int64_t{settings.batch} * all.size(), tested ? loss : 0, 0);
    progress.count_update(network);
    if (tested) loss = 0;
  }
}

int run(const Options& options) {
  fashion::Dataset training = fashion::load_dataset(options.data, "train");
  const fashion::Dataset test = fashion::load_dataset(options.data, "t10k");
  if (options.quick && training.size() > kQuickImages) {
    training.labels.resize(kQuickImages);
    training.pixels.resize(kQuickImages * fashion::kPixels);
  }
  const Settings& settings = options.settings;
  fashion::Communicator all;
  const bool served = settings.mode != Mode::allreduce;
  const int workers = all.size() - (served ? 1 : 0);
  if (workers < 1) throw std::invalid_argument("a server needs a worker: start at least two ranks (anellorun -np 2)");
  fashion::Network network = network_of(settings);
  if (served && all.rank() > 0) {
    Worker worker(all.rank() - 1, workers, training, settings);
    Channel channel(all.handle(), all.rank());
    worker.run(all.handle(), channel, network);
    return 0;
  }

  const bool speaks = all.rank() == 0;
  std::ofstream json;
  if (speaks && !options.json.empty()) {
    json.open(options.json);
    if (!json) throw std::runtime_error(options.json + ": cannot be written");
  }
  if (speaks) {
    network.randomize(settings.seed);
    std::printf("%s, %d %s%s over %s, %zu images, %td weights, %d images in a gradient\n",
                name_of(settings.mode).c_str(), workers, workers == 1 ? "worker" : "workers",
                served ? " and a server" : "", all.transport().c_str(), training.size(), network.parameters().size(),
                settings.batch);
    std::fflush(stdout);
  }
  const std::int64_t batches = static_cast<std::int64_t>(training.size()) / workers / settings.batch;
  Progress progress(settings, batches * workers * settings.batch, workers, speaks ? &test : nullptr);
  if (served) {
    Server(all.handle(), workers, network, settings, progress).run();
  } else {
    run_without_server(all, Worker(all.rank(), workers, training, settings), network, settings, progress);
  }
  progress.test(network);  // when workers were lost, the last epoch is not whole
  if (json.is_open()) {
    json << progress.report(network).dump(2) << '\n';
    if (!json.flush()) throw std::runtime_error(options.json + ": cannot be written");
  }
  return 0;
}

}  // namespace
}  // namespace parameter_server

int main(int argc, char** argv) {
  parameter_server::Options options;
  int exit_code = 0;
  if (!parameter_server::parse_options(argc, argv, &options, &exit_code)) return exit_code;
  try {
    return parameter_server::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parameter-server: %s\n", error.what());
    return 1;
  }
}
