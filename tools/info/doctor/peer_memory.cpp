// Whether a rank may read the memory of another one of this host by process_vm_readv. The check does it.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/system_file.h"

#include "memory/process_memory.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace info::doctor {
namespace {

// The error of a process that reads this one's memory, as a rank reads its sibling's. 0: it works.
int try_reading() {
  const anello::memory::Sample sample = anello::memory::own_sample();
  const pid_t child = fork();
  if (child == 0) _exit(anello::memory::read_process(sample, 0, nullptr, 0));
  int status = 0;
  if (child < 0) return errno;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

constexpr const char* kMeaning =
    "Ranks of this host copy ordinary memory through a shared buffer: large calls take up to twice as long. Memory of "
    "anello_mem_alloc is not affected.";

}  // namespace

Finding peer_memory() {
  const char* const kName = "peers' memory";
  const int error = try_reading();
  if (error == 0) return ok(kName, "ranks can read each other's (process_vm_readv)");
  const std::string why = std::string("process_vm_readv: ") + strerror(error);
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (error == EPERM && (scope == "1" || scope == "2")) {
    return warning(kName, why + ", kernel.yama.ptrace_scope is " + scope, kMeaning,
                   "sudo sysctl kernel.yama.ptrace_scope=0");
  }
  if (error == EPERM && scope == "3") {
    return warning(kName, why + ", kernel.yama.ptrace_scope is 3, which only a new start of the machine ends", kMeaning,
                   "echo kernel.yama.ptrace_scope=0 | sudo tee /etc/sysctl.d/60-ptrace.conf        then reboot");
  }
  const bool filtered = field("/proc/self/status", "Seccomp") == "2";
  const std::string also = filtered ? ", by a filter of system calls (seccomp)" : "";
  if (!container_engine().empty())
    return warning(kName, why + also, kMeaning, "docker run --cap-add=SYS_PTRACE ..        or podman run, likewise");
  return warning(kName, why + also, kMeaning,
                 filtered ? "systemctl show -p SystemCallFilter SERVICE        if it is a service that filters"
                          : "sudo journalctl -k -g denied        shows whether a security module forbids it");
}

}  // namespace info::doctor
