#pragma once
// Processes that ranks started and left behind. The launcher is the subreaper of its ranks, so each of them becomes
// the launcher's child when its parent ends, however it tried to detach: none outlives the job.
#include <sys/types.h>

#include <functional>
#include <vector>

namespace anellorun {

// From now on this process inherits what its descendants leave. Throws std::system_error.
void adopt_orphans();

// Children of this process, zombies included, that are not ranks.
std::vector<pid_t> orphans(const std::function<bool(pid_t)>& is_rank);

// Collects the status of those orphans that have ended. Ranks are left to be waited for by name.
void reap_orphans(const std::function<bool(pid_t)>& is_rank);

}  // namespace anellorun
