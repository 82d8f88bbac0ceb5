#include "anellorun/placement.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

namespace anellorun {
namespace {

// The lowest hardware thread of cpu's core represents the core; a machine that does not report this counts as having
// one thread per core.
int core_of(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return file >> first ? first : cpu;  // "0,4" or "0-1": the first number
}

}  // namespace

std::vector<cpu_set_t> placement(const Share& share) {
  if (share.binding == Binding::none) return {};
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  }
  std::vector<int> names;
  std::vector<cpu_set_t> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const int name = core_of(cpu);
    std::size_t i = 0;
    while (i < names.size() && names[i] != name) ++i;
    if (i == names.size()) {
      names.push_back(name);
      cores.emplace_back();
      CPU_ZERO(&cores.back());
    }
    CPU_SET(cpu, &cores[i]);
  }
  if (static_cast<std::size_t>(share.ranks) > cores.size()) {
    std::cerr << "anellorun: --bind-to core: " << share.ranks << " ranks share " << cores.size()
              << (cores.size() == 1 ? " core" : " cores") << '\n';
  }
  std::vector<cpu_set_t> sets;
  for (int rank = 0; rank < share.ranks; ++rank) sets.push_back(cores[static_cast<std::size_t>(rank) % cores.size()]);
  return sets;
}

}  // namespace anellorun
