#include "anellorun/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>

namespace anellorun {

void adopt_orphans() {
  // EINVAL: an emulated kernel without it, such as qemu-user's. There, what ranks leave behind outlives the job.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 && errno != EINVAL)
    throw std::system_error(errno, std::generic_category(), "prctl");
}

std::vector<pid_t> orphans(const std::function<bool(pid_t)>& is_rank) {
  const std::string self = std::to_string(getpid());
  std::ifstream children("/proc/self/task/" + self + "/children");
  std::vector<pid_t> found;
  for (pid_t pid; children >> pid;) {
    if (!is_rank(pid)) found.push_back(pid);
  }
  return found;
}

void reap_orphans(const std::function<bool(pid_t)>& is_rank) {
  for (pid_t pid : orphans(is_rank)) waitpid(pid, nullptr, WNOHANG);
}

}  // namespace anellorun
