#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"

#include "base/processor_quota.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>

namespace info::doctor {

Finding processors() {
  const char* const kName = "processors";
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = anello::processor_quota();
  if (quota == 0 || quota >= allowed) return ok(kName, std::to_string(allowed));
  char granted[32];
  std::snprintf(granted, sizeof granted, "%.2g", quota);
  const int ranks = std::max(1, static_cast<int>(quota));
  return warning(
      kName, std::to_string(allowed) + ", but the cgroup grants the time of " + granted,
      "With more busy ranks than " + std::to_string(ranks) +
          ", each is stopped for part of every tenth of a second, and the others wait for it.",
      "anellorun -np " + std::to_string(ranks) + " .." +
          (container_engine().empty() ? "" : "        or start the container with --cpus=" + std::to_string(allowed)));
}

}  // namespace info::doctor
