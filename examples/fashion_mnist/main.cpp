// Trains on Fashion-MNIST with data parallelism over Anello. Rank 0 prints; every rank exits with 1 if ranks have
// different parameters, or on any failure.
#include "options.h"

#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

namespace fashion {
namespace {

constexpr std::size_t kQuickImages = 12000;

std::string hexadecimal(std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

std::string counted(int ranks) { return ranks == 1 ? "1 rank" : std::to_string(ranks) + " ranks"; }

void print(const EpochReport& report, int epochs, int ranks) {
  std::printf("epoch %d/%d  loss %.4f  test accuracy %.2f %%  %.0f images/s  communicating %.1f %%  ", report.epoch,
              epochs, report.loss, 100 * report.accuracy, report.images_per_s, 100 * report.communicating);
  std::printf("parameters %s on %s\n", report.equal ? "equal" : "DIFFER", counted(ranks).c_str());
  std::fflush(stdout);
}

nlohmann::json to_json(const EpochReport& report) {
  return {{"epoch", report.epoch},
          {"loss", report.loss},
          {"accuracy", report.accuracy},
          {"images_per_s", report.images_per_s},
          {"communicating", report.communicating},
          {"equal", report.equal},
          {"hash", hexadecimal(report.hash)}};
}

// An empty path gives a file that is not open.
std::ofstream opened(const std::string& path) {
  std::ofstream file;
  if (!path.empty()) file.open(path);
  if (!file) throw std::runtime_error(path + ": cannot be written");
  return file;
}

int train(const Options& options) {
  Dataset training = load_dataset(options.data, "train");
  const Dataset test = load_dataset(options.data, "t10k");
  if (options.quick && training.size() > kQuickImages) {
    training.labels.resize(kQuickImages);
    training.pixels.resize(kQuickImages * kPixels);
  }

  Communicator communicator;
  const bool speaks = communicator.rank() == 0;
  const Settings& settings = options.settings;
  Trainer trainer(communicator, training, test, settings);
  if (speaks) {
    std::printf("%s over %s, %zu images, %zu parameters, batch %d (%d a rank)\n", counted(communicator.size()).c_str(),
                communicator.transport().c_str(), training.size(), trainer.parameter_count(), settings.batch,
                trainer.images_per_rank());
    std::fflush(stdout);
  }

  // Files are opened first, so that an error appears before the training.
  std::ofstream timeline_file = opened(speaks ? options.timeline : "");
  std::ofstream json_file = opened(speaks ? options.json : "");
  nlohmann::json epochs = nlohmann::json::array();
  EpochReport report;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    report = trainer.run_epoch(epoch);
    epochs.push_back(to_json(report));
    if (speaks) print(report, settings.epochs, communicator.size());
    if (!report.equal) return 1;
  }
  const std::string summary = trainer.summary();
  if (speaks) {
    const Timeline timeline = trainer.gradients().timeline();
    std::printf("the last step on rank 0, from the forward pass on (# backward, = all-reduce, . waiting):\n%s",
                timeline.text().c_str());
    std::printf("%s\n", summary.c_str());
    if (!options.timeline.empty()) {
      timeline_file << timeline.svg();
      if (!timeline_file.flush()) throw std::runtime_error(options.timeline + ": cannot be written");
    }
    std::printf("final parameters %s, test accuracy %.2f %%\n", hexadecimal(report.hash).c_str(),
                100 * report.accuracy);
    if (!options.json.empty()) {
      const nlohmann::json all = {{"ranks", communicator.size()},
                                  {"transport", communicator.transport()},
                                  {"batch", settings.batch},
                                  {"micro_batches", settings.micro_batches},
                                  {"parameters", trainer.parameter_count()},
                                  {"sync", settings.sync == Sync::flat ? "flat" : "buckets"},
                                  {"buckets", trainer.gradients().buckets()},
                                  {"hidden", trainer.gradients().timeline().hidden()},
                                  {"epochs", epochs},
                                  {"hash", hexadecimal(report.hash)}};
      json_file << all.dump(2) << '\n';
      if (!json_file.flush()) throw std::runtime_error(options.json + ": cannot be written");
    }
  }
  return 0;
}

}  // namespace
}  // namespace fashion

int main(int argc, char** argv) {
  fashion::Options options;
  int exit_code = 0;
  if (!fashion::parse_options(argc, argv, &options, &exit_code)) return exit_code;
  try {
    return fashion::train(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion-mnist: %s\n", error.what());
    return 1;
  }
}
