// Random programs against the model.
//   model_test                                   300 programs over all transports, always the same
//   model_test --programs 10000 --seed random    others each time; the seed is printed
//   model_test --devices                         half of the buffers on a device
//   model_test --transport shm --ranks 3 --program 17     one program, as a failure's last line says
//   model_test --show --ranks 3 --program 17              its text
#include "model/calls.h"
#include "model/generate.h"
#include "model/random.h"
#include "model/shrink.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include <signal.h>

namespace anello::model {
namespace {

constexpr std::size_t kProgramsOfJob = 10;

struct Options {
  Job job;  // the one to run or to be, where programs are named
  int rank = -1;
  std::size_t programs = 300;
  std::uint64_t seed = 1;
  int shrink_seconds = 60;
  bool show = false;
  bool settings = true;  // jobs with settings by chance
};

std::vector<std::string> cut_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<int> numbers(const std::string& text) {
  std::vector<int> list;
  for (const std::string& part : cut_at_commas(text)) list.push_back(std::stoi(part));
  return list;
}

[[noreturn]] void usage(const std::string& wrong) {
  std::cerr
      << wrong << "\n"
      << "model_test [--programs N] [--seed N|random] [--transport all|inproc|shm|tcp] [--ranks N] [--shrink SECONDS]\n"
      << "           [--bug NAME] [--timeout MS] [--plain] [--devices] [--program SEED,..] [--show] [--steps ID,..] "
         "[--first-ranks "
         "N]\n"
      << "           [--most ELEMENTS] [--without FEATURE,..]\n";
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  options.job.transport = "all";
  options.job.ranks = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--show") {
      options.show = true;
      continue;
    }
    if (word == "--devices") {
      options.job.settings["MODEL_DEVICE"] = "1";
      continue;
    }
    if (word == "--plain") {
      options.settings = false;
      continue;
    }
    if (i + 1 == argc) usage(word + " is unknown or lacks its value");
    const std::string value = argv[++i];
    Cut& cut = options.job.cut;
    if (word == "--programs")
      options.programs = std::stoull(value);
    else if (word == "--seed")
      options.seed = value == "random" ? std::random_device{}() : std::stoull(value);
    else if (word == "--transport")
      options.job.transport = value;
    else if (word == "--ranks")
      options.job.ranks = std::stoi(value);
    else if (word == "--rank")
      options.rank = std::stoi(value);
    else if (word == "--shrink")
      options.shrink_seconds = std::stoi(value);
    else if (word == "--timeout")
      options.job.timeout_ms = std::stoi(value);
    else if (word == "--bug")
      options.job.bug = value;
    else if (word == "--program")
      for (const auto& seed : cut_at_commas(value)) options.job.seeds.push_back(std::stoull(seed));
    else if (word == "--steps")
      cut.steps = numbers(value);
    else if (word == "--first-ranks")
      cut.ranks = std::stoi(value);
    else if (word == "--most")
      cut.most_elements = std::stoull(value);
    else if (word == "--without")
      for (const auto& feature : cut_at_commas(value)) cut.without.insert(feature);
    else
      usage("there is no option " + word);
  }
  return options;
}

// A job of the batch: a few ranks, and settings that change which paths a program takes.
Job job_of(const Options& options, std::size_t number) {
  Random random(mix(options.seed, 31 * number + 7));
  static const std::vector<std::string> transports{"inproc", "shm", "tcp"};
  static const std::vector<std::string> algorithms{"ring",  "pairwise", "doubling", "halving", "tree",
                                                   "chain", "direct",   "exchange", "central"};
  Job job = options.job;
  if (job.transport == "all") job.transport = transports[number % transports.size()];
  if (job.ranks == 0) job.ranks = random.one_in(10) ? 1 : 2 + random.below(7);
  for (std::size_t i = 0; i < kProgramsOfJob; ++i) job.seeds.push_back(random() % 1'000'000'000);
  if (!options.settings) return job;
  if (random.one_in(3)) job.settings["ANELLO_ALGORITHM"] = random.of(algorithms);
  if (random.one_in(4))
    job.settings["ANELLO_CHUNK_BYTES"] = random.of(std::vector<std::string>{"1", "100", "4096", "100000"});
  if (random.one_in(8)) job.settings["ANELLO_INVARIANT"] = "1";
  if (random.one_in(8)) job.settings["ANELLO_FIRST_SEQUENCE"] = "4294967290";
  if (random.one_in(8)) job.settings["ANELLO_SPIN_US"] = "0";
  if (job.settings.count("MODEL_DEVICE") != 0) {
    job.settings["MODEL_DEVICE"] = job.settings["FAKE_CUDA_DEVICES"] = random.one_in(3) ? "2" : "1";
    // Small calls, too, run on the devices then.
    if (random.one_in(2)) job.settings["ANELLO_ALGORITHM"] = random.one_in(2) ? "direct" : "central";
  }
  if (job.transport == "tcp" && random.one_in(4)) job.settings["MODEL_SOCKET_BYTES"] = "65536";
  return job;
}

void show(const Job& job) {
  for (const std::uint64_t seed : job.seeds) {
    Program program = generate(seed, job.ranks);
    job.cut.apply(program);
    std::cout << describe(program);
  }
}

// The program that failed, what was wrong, and the smallest that still fails.
void explain(const Job& whole, const Outcome& outcome, int seconds) {
  std::uint64_t seed = whole.seeds[std::min(outcome.passed, whole.seeds.size() - 1)];
  std::istringstream(outcome.trouble) >> seed;  // a complaint begins with it
  std::cout << "FAILED over " << whole.transport << ", program " << seed << ": " << outcome.trouble << "\n";
  Job job = whole;
  job.seeds = {seed};
  std::cout << "repeat: " << command(job) << "\n";
  show(job);
  Outcome alone;
  for (int attempt = 0; attempt < 5 && !alone.failed(); ++attempt) alone = run(job);
  if (!alone.failed()) {
    std::cout << "alone it does not fail in 5 runs; with those before it: " << command(whole) << "\n";
    return;
  }
  if (seconds <= 0) return;
  const Smallest smallest = shrink(job, alone.trouble, seconds);
  std::cout << "smallest found, in " << smallest.runs << " runs: " << smallest.trouble << "\n";
  show(smallest.job);
  std::cout << "repeat: " << command(smallest.job) << "\n";
}

int run_batch(const Options& options) {
  std::cout << "seed " << options.seed << ", " << options.programs << " programs\n" << std::flush;
  const auto begin = std::chrono::steady_clock::now();
  std::size_t passed = 0;
  for (std::size_t number = 0; passed < options.programs; ++number) {
    Job job = job_of(options, number);
    job.seeds.resize(std::min(job.seeds.size(), options.programs - passed));
    const Outcome outcome = run(job);
    passed += outcome.passed;
    if (!outcome.failed()) continue;
    std::cout << "after " << passed << " programs: ";
    explain(job, outcome, options.shrink_seconds);
    return 1;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << passed << " programs are as the model says, in " << seconds.count() << " s\n";
  return 0;
}

int run_named(Job job) {
  if (job.transport == "all") usage("--program goes with --transport");
  // As the command that was printed has set them; ranks inherit what is not changed.
  const Outcome outcome = run(job);
  if (!outcome.failed()) {
    std::cout << outcome.passed << " programs are as the model says\n";
    return 0;
  }
  std::cout << "FAILED: " << outcome.trouble << "\n";
  return 1;
}

int main_of(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!inject(options.job.bug)) usage("there is no bug " + options.job.bug);
  if (!options.job.seeds.empty() && options.job.ranks < 1) usage("--program goes with --ranks");
  if (options.rank >= 0) return be_rank(options.job, options.rank);
  ::signal(SIGPIPE, SIG_IGN);
  if (options.show) {
    show(options.job);
    return 0;
  }
  return options.job.seeds.empty() ? run_batch(options) : run_named(options.job);
}

}  // namespace
}  // namespace anello::model

int main(int argc, char** argv) { return anello::model::main_of(argc, argv); }
