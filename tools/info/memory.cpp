#include "info/host.h"
#include "info/system_file.h"

#include <sys/resource.h>

#include <cstdlib>
#include <string>

namespace info {
namespace {

double kilobytes(const std::string& name) { return std::atof(field("/proc/meminfo", name).c_str()) * 1024; }

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : in_units(static_cast<double>(limit));
}

}  // namespace

Section memory() {
  Section section{"memory", {}};
  section.entries.push_back({"total", in_units(kilobytes("MemTotal")), ""});
  section.entries.push_back({"available", in_units(kilobytes("MemAvailable")), ""});
  const std::string limit = cgroup_limit("memory.max");
  section.entries.push_back({"cgroup limit", limit.empty() ? "none" : in_units(std::atof(limit.c_str())),
                             limit.empty() ? "" : "memory shared between ranks counts once, for its first toucher"});
  const std::string pages = "/sys/kernel/mm/transparent_hugepage/";
  const std::string own = chosen(first_line(pages + "enabled"));
  section.entries.push_back({"transparent huge pages", own.empty() ? "not supported" : own, ""});
  const std::string shared = chosen(first_line(pages + "shmem_enabled"));
  section.entries.push_back({"huge pages, shared memory", shared.empty() ? "not supported" : shared,
                             shared == "never" ? "echo advise > " + pages + "shmem_enabled allows them" : ""});
  section.entries.push_back(
      {"reserved huge pages",
       field("/proc/meminfo", "HugePages_Total") + " of " + field("/proc/meminfo", "Hugepagesize"), ""});
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  section.entries.push_back({"lockable (ulimit -l)", limit_text(locked.rlim_cur), ""});
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  section.entries.push_back({"open files (ulimit -n)", std::to_string(files.rlim_cur), ""});
  return section;
}

}  // namespace info
