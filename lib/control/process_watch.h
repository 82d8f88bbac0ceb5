#pragma once
// Finds ranks of this host that a signal or a debugger has stopped. Each process checks the next one of its process
// namespace and, if that one is stopped, the one after it. So all processes are checked as long as one runs, and no
// process checks all others. Service thread only.
#include "control/process_state.h"

#include <cstdint>
#include <map>
#include <vector>

namespace anello::control {

class Agent;

class ProcessWatch {
 public:
  explicit ProcessWatch(Agent& agent) : agent_(agent) {}
  // Call it once all ranks are known.
  void start();
  void look();

 private:
  struct Seen {
    ProcessState state;
    int stopped = 0;  // in this many checks in a row
  };
  Agent& agent_;
  std::vector<int> round_;    // the lowest rank of each process, from the one after this
  std::map<int, Seen> seen_;  // indexed by that rank
};

}  // namespace anello::control
