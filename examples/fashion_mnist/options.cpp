#include "options.h"

#include <CLI/CLI.hpp>

#include <string>

namespace fashion {

bool parse_options(int argc, char** argv, Options* options, int* exit_code) {
  CLI::App app(
      "Trains a small network on the 60,000 Fashion-MNIST images, on as many ranks as it is started with:\n\n"
      "  fashion-mnist                      one process\n"
      "  anellorun -np 4 ./fashion-mnist    four, each with a quarter of every batch\n\n"
      "Every rank computes the gradient over its part of the batch; Anello averages the gradients. The result is the\n"
      "same for any number of ranks, up to the order in which floats are added; with ANELLO_INVARIANT=1 four ranks\n"
      "and one with --micro-batches 4 agree in every bit.");
  app.option_defaults()->always_capture_default();
  Settings& settings = options->settings;
  app.add_option("--epochs", settings.epochs, "passes over the training images")->check(CLI::Range(1, 1000));
  app.add_option("--batch", settings.batch, "images of one update over all ranks; ranks times micro-batches divide it")
      ->check(CLI::Range(1, 60000));
  app.add_option("--learning-rate", settings.learning_rate, "learning rate of the first update; falls linearly to 0")
      ->check(CLI::Range(0.0, 10.0));
  app.add_option("--momentum", settings.momentum, "share of the last step that the next step adds")
      ->check(CLI::Range(0.0, 0.999));
  app.add_option("--hidden", settings.hidden, "widths of the hidden layers")
      ->check(CLI::Range(1, 4096))
      ->expected(1, 8);
  app.add_option("--micro-batches", settings.micro_batches,
                 "pieces of each rank's part of a batch; their gradients are added in order")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seed", settings.seed, "seed for the first parameters and the order of images");
  app.add_option("--data", options->data, "folder with the data set's four .gz files (Debian: dataset-fashion-mnist)");
  std::string sync = settings.sync == Sync::flat ? "flat" : "buckets";
  app.add_option("--sync", sync, "buckets: averaged while the backward pass computes; flat: all at once after it")
      ->check(CLI::IsMember({"flat", "buckets"}));
  int bucket_kib = static_cast<int>(settings.bucket_bytes / 1024);
  app.add_option("--bucket-kib", bucket_kib, "KiB of gradients in a bucket; a quarter of it in the first")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--timeline", options->timeline, "file to which rank 0 draws its last step, as SVG");
  app.add_option("--json", options->json, "file to which rank 0 writes figures and hashes");
  app.add_flag("--quick", options->quick, "one epoch over 12,000 images, to see whether it runs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  settings.sync = sync == "flat" ? Sync::flat : Sync::buckets;
  if (options->quick) settings.epochs = 1;
  settings.bucket_bytes = static_cast<std::size_t>(bucket_kib) * 1024;
  return true;
}

}  // namespace fashion
