#include "base/processor_quota.h"

#include "base/system_file.h"
#include "base/text.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace anello {
namespace {

void lower(double& limit, double quota, double period) {
  if (quota <= 0 || period <= 0) return;
  limit = limit == 0 ? quota / period : std::min(limit, quota / period);
}

}  // namespace

double processor_quota() {
  std::ifstream file("/proc/self/cgroup");
  double limit = 0;
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
          if (words >> quota >> period) lower(limit, quota, period);  // "max 100000" does not parse: no limit
        }
      } else {
        for (const char* const root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
          const std::string quota = first_line(root + path + "/cpu.cfs_quota_us");
          const std::string period = first_line(root + path + "/cpu.cfs_period_us");
          if (!quota.empty() && !period.empty()) lower(limit, std::atof(quota.c_str()), std::atof(period.c_str()));
        }
      }
      const std::size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return limit;
}

}  // namespace anello
