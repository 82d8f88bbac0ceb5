#include "control/host.h"

#include "base/text.h"
#include "control/secret.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::control {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t number_from(std::string_view label, const std::string& material) {
  const Key key = key_from(label, bytes_of(material));
  std::uint64_t number;
  std::memcpy(&number, key.bytes().data(), sizeof number);
  return number;
}

// Processors that quota/period grants, rounded up; 0: no limit.
int granted(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

void lower(int& limit, int other) {
  if (other > 0) limit = limit == 0 ? other : std::min(limit, other);
}

// The tightest quota of the process's cgroup and those above it, as far as they can be seen here.
int cgroup_processors() {
  std::ifstream file("/proc/self/cgroup");
  int limit = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = text(",", line.substr(first + 1, second - first - 1), ",");
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    for (;;) {
      if (v2) {
        for (const char* const root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
          std::istringstream words(first_line(root + path + "/cpu.max"));
          double quota = 0, period = 0;
          if (words >> quota >> period) lower(limit, granted(quota, period));  // "max 100000" does not parse: no limit
        }
      } else {
        for (const char* const root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
          const std::string quota = first_line(root + path + "/cpu.cfs_quota_us");
          const std::string period = first_line(root + path + "/cpu.cfs_period_us");
          if (!quota.empty() && !period.empty())
            lower(limit, granted(std::atof(quota.c_str()), std::atof(period.c_str())));
        }
      }
      const std::size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return limit;
}

Host look_around() {
  Host host;
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  host.name = name;
  struct stat network{};
  std::string identity = first_line("/proc/sys/kernel/random/boot_id");
  // Without either, no two processes must think that they are neighbours.
  if (identity.empty() || ::stat("/proc/self/ns/net", &network) != 0) identity = std::to_string(random_number());
  identity += text(" ", network.st_dev, " ", network.st_ino);
  host.reach = number_from("anello host", identity);
  host.process = random_number();
  host.pid = ::getpid();
  host.uid = ::geteuid();
  return host;
}

}  // namespace

const Host& this_host() {
  static const Host* const host = new Host(look_around());
  return *host;
}

int usable_processors() {
  int processors = 1;
  // Sets of fixed size fail on machines with more processors than they hold.
  for (int bits = 1024; bits <= 1 << 20; bits *= 4) {
    cpu_set_t* const set = CPU_ALLOC(bits);
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool fits = set != nullptr && ::sched_getaffinity(0, bytes, set) == 0;
    if (fits) processors = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (fits) break;
  }
  lower(processors, cgroup_processors());
  return processors;
}

}  // namespace anello::control
