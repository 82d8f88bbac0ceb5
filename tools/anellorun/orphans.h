#pragma once
// Processes that ranks started and left behind. The launcher is the subreaper of its ranks, so each such process
// becomes the launcher's child when its parent ends, even if it tried to detach: none outlives the job.
#include <sys/types.h>

#include <functional>
#include <vector>

namespace anellorun {

// From now on this process inherits its descendants' orphans. Throws std::system_error.
void adopt_orphans();

// Children of this process, zombies included, that are not ranks.
std::vector<pid_t> orphans(const std::function<bool(pid_t)>& is_rank);

// Collects the status of the orphans that have ended. Ranks are waited for by pid elsewhere.
void reap_orphans(const std::function<bool(pid_t)>& is_rank);

}  // namespace anellorun
