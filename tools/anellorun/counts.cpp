#include "anellorun/counts.h"

#include "anellorun/placement.h"
#include "anellorun/visible_gpus.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace anellorun {
namespace {

constexpr int kAuto = -1, kProcessors = -2, kGpus = -3;

int gpus() {
  int count = 0;
  for (struct stat about{}; stat(("/dev/nvidia" + std::to_string(count)).c_str(), &about) == 0;) ++count;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? count : visible_gpus(visible, count);
}

int count_here(int word, const char* option) {
  const int devices = word == kProcessors ? 0 : gpus();
  if (word == kGpus && devices == 0)
    throw Mistake(option, "'gpu': this machine has no NVIDIA GPU that this shell may use");
  return devices > 0 ? devices : usable_processors();
}

}  // namespace

CLI::Validator number_of_ranks() {
  const CLI::Validator whole = shared::whole(1, kMaxRanks);
  return CLI::Validator(
      [whole](std::string& input) {
    static const std::map<std::string, int> kWords{{"auto", kAuto}, {"cpu", kProcessors}, {"gpu", kGpus}};
    const auto word = kWords.find(input);
    if (word == kWords.end()) return whole(input);
    input = std::to_string(word->second);
    return std::string();
      },
      "");
}

void settle_counts(Wishes& wishes) {
  const auto is_counted = [](const HostSlots& host) { return host.counted; };
  int& of_first = wishes.programs.front().ranks;
  if (wishes.ranks == kAuto && wishes.programs.size() == 1 &&
      std::any_of(wishes.hosts.begin(), wishes.hosts.end(), is_counted)) {
    wishes.ranks = of_first = 0;  // all slots
  }
  const auto settle = [&wishes](int& ranks, const char* option) {
    if (ranks >= 0) return;
    for (const HostSlots& host : wishes.hosts) {
      if (is_this_host(host.name)) continue;
      throw Mistake(option, "auto, cpu and gpu count what this machine has, which may differ from host " + host.name +
                                "; write a number, or one for each host, as in --hosts alpha:4,beta:8");
    }
    ranks = count_here(ranks, option);
  };
  settle(wishes.ranks, "-np");
  settle(wishes.ranks_of_host, "--nproc-per-node");
  for (Program& program : wishes.programs) settle(program.ranks, "-np");
}

}  // namespace anellorun
