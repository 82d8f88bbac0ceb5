#pragma once
// Looks at the ranks that run on this host, without stopping them: maps their recorders (recorder/recorder.h), which
// the kernel allows a process of the same user, or of root.
#include "recorder/snapshot.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace jobs {

// One rank's communicator.
struct Shown {
  std::int64_t pid = 0;     // as this process sees it
  int place = 0;            // in the recorder
  bool is_stopped = false;  // its process, by a signal or a debugger
  anello::recorder::Snapshot snapshot;
};

struct Look {
  std::int64_t at_ns = 0;
  std::vector<Shown> ranks;           // in the order of job, rank in it, and communicator
  std::vector<std::string> problems;  // sentences about processes that cannot be read
};

// All ranks of this host, or those of these processes.
Look look(const std::vector<std::int64_t>& pids);

// What changed nothing between two looks, each a moment: an operation that is in flight in the second only is taken as
// ended, since ranks that work are always in one.
std::vector<anello::recorder::Snapshot> settled(const Look& before, const Look& now);

}  // namespace jobs
