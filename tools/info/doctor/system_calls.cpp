// System calls that a filter (seccomp) or an old kernel may refuse, each tried without an effect.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/system_file.h"

#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace info::doctor {
namespace {

struct Call {
  const char* name;
  long (*attempt)();  // below 0: errno says why
  const char* without;
};

long try_pidfd_open() {
  const long descriptor = syscall(SYS_pidfd_open, getpid(), 0);
  if (descriptor >= 0) close(static_cast<int>(descriptor));
  return descriptor;
}

long try_membarrier() { return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0); }

long try_affinity() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? sched_setaffinity(0, sizeof set, &set) : 0;
}

long try_mempolicy() {
  int mode = 0;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0);
}

constexpr Call kCalls[] = {
    {"pidfd_open", try_pidfd_open, "it is noticed later that a rank has been killed"},
    {"membarrier", try_membarrier, "small calls of ranks on one host take longer"},
    {"sched_setaffinity", try_affinity, "anellorun --bind-to does not work"},
    {"get_mempolicy", try_mempolicy, "memory cannot be put on a NUMA node"},
};

}  // namespace

Finding system_calls() {
  const char* const kName = "system calls";
  const bool filtered = field("/proc/self/status", "Seccomp") == "2";
  std::string refused, without;
  for (const Call& call : kCalls) {
    if (call.attempt() >= 0) continue;
    refused += (refused.empty() ? "" : ", ") + std::string(call.name) + " (" + strerror(errno) + ")";
    without += (without.empty() ? "" : "; ") + std::string(call.without);
  }
  if (refused.empty())
    return ok(kName, filtered ? "filtered, and those that Anello makes are allowed" : "not filtered");
  return warning(kName, "refused: " + refused, "Without them, " + without + ".",
                 !filtered                     ? "uname -r        needs Linux 5.3"
                 : !container_engine().empty() ? "docker run --security-opt seccomp=unconfined .."
                                               : "systemctl show -p SystemCallFilter SERVICE        if it is a service "
                                                 "that filters");
}

}  // namespace info::doctor
