#include "options.h"

#include <CLI/CLI.hpp>

#include <map>

namespace parameter_server {

bool parse_options(int argc, char** argv, Options* options, int* exit_code) {
  CLI::App app(
      "Trains a small network on Fashion-MNIST with a parameter server: rank 0 has the weights, and all other ranks\n"
      "send it gradients.\n\n"
      "  anellorun -np 4 ./parameter-server --mode sync        the mean of three workers' gradients is one update\n"
      "  anellorun -np 4 ./parameter-server --mode async       each gradient is an update, as soon as it arrives\n"
      "  anellorun -np 4 ./parameter-server --mode dc-asgd     likewise, compensated for the updates that it missed\n"
      "  anellorun -np 4 ./parameter-server --mode allreduce   for comparison: four workers and no server\n\n"
      "With anellorun --keep-going, the asynchronous modes go on when a worker is lost.");
  app.option_defaults()->always_capture_default();
  Settings& settings = options->settings;
  std::map<std::string, Mode> modes;
  for (const Mode mode : {Mode::synchronous, Mode::asynchronous, Mode::compensated, Mode::allreduce}) {
    modes.emplace(name_of(mode), mode);
  }
  std::string mode = name_of(settings.mode);
  app.add_option("--mode", mode, "sync, async, dc-asgd or allreduce")->check(CLI::IsMember(modes));
  app.add_option("--epochs", settings.epochs, "passes over the training images")->check(CLI::Range(1, 1000));
  app.add_option("--batch", settings.batch, "images of one gradient of one worker")->check(CLI::Range(1, 60000));
  app.add_option("--steps", settings.steps, "gradients of each worker, instead of whole epochs; 0: --epochs decides")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--learning-rate", settings.learning_rate, "learning rate of the first update; falls linearly to 0")
      ->check(CLI::Range(0.0, 10.0));
  app.add_option("--compensation", settings.compensation, "lambda of DC-ASGD")->check(CLI::Range(0.0, 1e12));
  app.add_option("--hidden", settings.hidden, "widths of the hidden layers")
      ->check(CLI::Range(1, 4096))
      ->expected(1, 8);
  app.add_option("--seed", settings.seed, "seed for the first weights and the order of images");
  app.add_option("--data", options->data, "folder with the data set's four .gz files (Debian: dataset-fashion-mnist)");
  app.add_option("--json", options->json, "file to which rank 0 writes figures");
  app.add_flag("--quick", options->quick, "one epoch over 12,000 images, to see whether it runs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  settings.mode = modes.at(mode);
  if (options->quick) settings.epochs = 1;
  return true;
}

}  // namespace parameter_server
