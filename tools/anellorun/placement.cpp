#include "anellorun/placement.h"

#include "anellorun/failure.h"

#include "base/processor_quota.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

namespace anellorun {
namespace {

int first_number_in(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = otherwise;
  return file >> number ? number : otherwise;
}

// The number of the unit to which cpu belongs; a machine that does not report this counts as having one thread for each
// core, one socket and one node.
int unit_of(int cpu, Binding binding) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  // The lowest hardware thread of a core represents it: "0,4" or "0-1".
  if (binding == Binding::core) return first_number_in(folder + "/topology/thread_siblings_list", cpu);
  if (binding == Binding::socket) return std::max(0, first_number_in(folder + "/topology/physical_package_id", 0));
  constexpr int kMaxNodes = 1024;
  for (int node = 0; node < kMaxNodes; ++node) {
    if (std::ifstream(folder + "/node" + std::to_string(node) + "/cpulist")) return node;
  }
  return 0;
}

cpu_set_t allowed_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity");
  return allowed;
}

}  // namespace

int usable_processors() {
  const cpu_set_t allowed = allowed_processors();
  const int count = std::max(1, CPU_COUNT(&allowed));
  const double quota = anello::processor_quota();
  return quota > 0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, count) : count;
}

std::vector<cpu_set_t> placement(const Share& share) {
  if (share.binding == Binding::none) return {};
  const cpu_set_t allowed = allowed_processors();
  std::vector<cpu_set_t> units;
  std::map<int, std::size_t> known;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const auto [at, is_new] = known.emplace(unit_of(cpu, share.binding), units.size());
    if (is_new) CPU_ZERO(&units.emplace_back());
    CPU_SET(cpu, &units[at->second]);
  }
  const auto ranks = static_cast<std::size_t>(share.ranks);
  std::vector<cpu_set_t> sets;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t neighbours = i * units.size() / ranks;
    sets.push_back(units[share.binding == Binding::core ? i % units.size() : neighbours]);
  }
  return sets;
}

std::string describe(const cpu_set_t& set) {
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpu);
    if (last > cpu) text.append("-").append(std::to_string(last));
    cpu = last;
  }
  return text;
}

}  // namespace anellorun
