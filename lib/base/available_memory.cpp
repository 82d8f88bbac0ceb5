#include "base/available_memory.h"

#include "base/system_file.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace anello {
namespace {

constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

std::uint64_t number_in(const std::string& path) {
  const std::string line = first_line(path);
  return line.empty() || line[0] < '0' || line[0] > '9' ? kUnbounded : std::stoull(line);
}

std::uint64_t of_machine(const std::string& what) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == what) return kibibytes * 1024;
    std::getline(file, unit);
  }
  return kUnbounded;
}

std::uint64_t of_cgroups() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::uint64_t least = kUnbounded;
  while (std::getline(file, line)) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string path = line.substr(3); !path.empty(); path.erase(path.rfind('/'))) {
      const std::string folder = "/sys/fs/cgroup" + path;
      const std::uint64_t limit = number_in(folder + "/memory.max");
      const std::uint64_t used = number_in(folder + "/memory.current");
      if (limit != kUnbounded && used != kUnbounded) least = std::min(least, limit > used ? limit - used : 0);
    }
  }
  return least;
}

}  // namespace

std::uint64_t available_memory_of_node(int node) {
  std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  std::string word, number, name, unit;
  std::uint64_t kibibytes = 0, total = 0, free = kUnbounded, files = 0;
  while (file >> word >> number >> name >> kibibytes) {
    if (name == "MemTotal:") total = kibibytes * 1024;
    if (name == "MemFree:") free = kibibytes * 1024;
    if (name == "Active(file):" || name == "Inactive(file):") files += kibibytes * 1024;
    std::getline(file, unit);
  }
  if (free == kUnbounded) return kUnbounded;
  // As much as the kernel counts for the machine: half of the memory of files is available, and the memory that the
  // kernel reserves, a share on each node, is not.
  const std::uint64_t least = number_in("/proc/sys/vm/min_free_kbytes");
  const double share = std::min(1.0, double(total) / double(of_machine("MemTotal:")));
  const std::uint64_t kept = least == kUnbounded ? 0 : std::uint64_t(share * 2 * 1024 * double(least));
  const std::uint64_t all = free + files / 2;
  return all > kept ? all - kept : 0;
}

std::uint64_t available_memory() { return std::min(of_machine("MemAvailable:"), of_cgroups()); }

}  // namespace anello
