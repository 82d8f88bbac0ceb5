#include "build_info.h"
#include "info/host.h"
#include "info/system_file.h"

#include "base/processor_quota.h"

#if ANELLO_HAVE_HWLOC
#include <hwloc.h>
#endif
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

namespace info {
namespace {

#if ANELLO_HAVE_HWLOC
std::string topology() {
  hwloc_topology_t found;
  if (hwloc_topology_init(&found) != 0) return "";
  std::string text;
  if (hwloc_topology_load(found) == 0) {
    const auto count = [&](hwloc_obj_type_t type) { return std::max(hwloc_get_nbobjs_by_type(found, type), 0); };
    std::ostringstream out;
    out << "packages " << count(HWLOC_OBJ_PACKAGE) << ", NUMA nodes " << count(HWLOC_OBJ_NUMANODE) << ", L3 caches "
        << count(HWLOC_OBJ_L3CACHE) << ", cores " << count(HWLOC_OBJ_CORE) << ", hardware threads "
        << count(HWLOC_OBJ_PU);
    text = out.str();
  }
  hwloc_topology_destroy(found);
  return text;
}
#endif

}  // namespace

Section processors() {
  Section section{"processors", {}};
  const std::string cpuinfo = "/proc/cpuinfo";
  const std::string model = field(cpuinfo, "model name");
  section.entries.push_back({"model", model.empty() ? "not named by the kernel" : model, ""});
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  section.entries.push_back({"online", std::to_string(online), ""});
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  section.entries.push_back({"allowed by affinity", std::to_string(allowed),
                             allowed < online ? "this process was bound: taskset -p shows the mask" : ""});
  if (const double quota = anello::processor_quota(); quota > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f processors", quota);
    section.entries.push_back({"cgroup quota", text, "more busy ranks than this are stopped for part of each period"});
  } else {
    section.entries.push_back({"cgroup quota", "none", ""});
  }
#if ANELLO_HAVE_HWLOC
  section.entries.push_back({"topology", topology(), ""});
#else
  section.entries.push_back({"topology", "not known", "built without hwloc (libhwloc-dev)"});
#endif
  return section;
}

}  // namespace info
