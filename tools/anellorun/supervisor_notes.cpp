// What a supervisor says of how a host's processors are shared out.
#include "anellorun/supervisor.h"

namespace anellorun {

void Supervisor::bound(int rank, const std::string& processors) {
  say("rank " + std::to_string(rank) + " (host " + host_of(rank) + ") runs on " +
      (processors.find_first_not_of("0123456789") == std::string::npos ? "processor " : "processors ") + processors);
  if (options_.shares.front().binding != Binding::core || said_shared_core_) return;
  if (bound_.insert(host_of(rank) + " " + processors).second) return;
  said_shared_core_ = true;
  say("host " + host_of(rank) + " has more ranks than cores, so ranks share cores");
}

// Once: hosts of a job are mostly alike.
void Supervisor::threads(int rank, const ThreadsNote& note) {
  if (said_threads_) return;
  said_threads_ = true;
  const bool crowded = note.ranks > note.processors && !options_.oversubscribe;
  say(describe(rank, note) + (options_.on_agents ? " on host " + host_of(rank) : "") +
      (crowded ? ", which take turns (--oversubscribe says that this is meant)" : ""));
}

}  // namespace anellorun
