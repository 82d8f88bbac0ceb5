#include "control/processors.h"

#include "base/system_file.h"
#include "base/text.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <sched.h>

namespace anello::control {
namespace {

// Processors that quota/period grants, rounded up; 0: no limit.
int granted(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

void lower(int& limit, int other) {
  if (other > 0) limit = limit == 0 ? other : std::min(limit, other);
}

// The smallest quota of the process's cgroup and the cgroups above it, as far as they are visible here.
int quota_processors() {
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

Processors::Words affinity_mask() {
  Processors::Words words;
  // A set of fixed size fails on machines with more processors than it holds.
  for (int bits = 1024; bits <= int(Processors::kMaxWords) * 64; bits *= 4) {
    cpu_set_t* const set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool fits = ::sched_getaffinity(0, bytes, set) == 0;
    for (int processor = 0; fits && processor < bits; ++processor) {
      if (!CPU_ISSET_S(std::size_t(processor), bytes, set)) continue;
      words.resize(std::size_t(processor) / 64 + 1);
      words.back() |= std::uint64_t{1} << processor % 64;
    }
    CPU_FREE(set);
    if (fits) break;
  }
  return words;
}

}  // namespace

Processors Processors::of_this_process() { return {affinity_mask(), quota_processors()}; }

int Processors::count() const {
  int processors = 0;
  for (const std::uint64_t word : allowed_) processors += std::popcount(word);
  lower(processors, quota_);
  return std::max(1, processors);
}

void Processors::join(const Processors& other) {
  if (allowed_.empty()) {
    *this = other;
    return;
  }
  allowed_.resize(std::max(allowed_.size(), other.allowed_.size()));
  for (std::size_t i = 0; i < other.allowed_.size(); ++i) allowed_[i] |= other.allowed_[i];
  // It is not visible whether two quotas are the same one, so the larger one counts for both.
  quota_ = quota_ == 0 || other.quota_ == 0 ? 0 : std::max(quota_, other.quota_);
}

}  // namespace anello::control
