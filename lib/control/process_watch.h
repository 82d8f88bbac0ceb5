#pragma once
// Ranks of this host that are stopped, by a signal or a debugger. Each process looks at the next one of its process
// namespace, and past those that are stopped at the one after: all are looked at as long as one runs, and nobody looks
// at all. Service thread only.
#include "control/process_state.h"

#include <cstdint>
#include <map>
#include <vector>

namespace anello::control {

class Agent;

class ProcessWatch {
 public:
  explicit ProcessWatch(Agent& agent) : agent_(agent) {}
  // Once everybody is known.
  void start();
  void look();

 private:
  struct Seen {
    ProcessState state;
    int stopped = 0;  // at so many looks in a row
  };
  Agent& agent_;
  std::vector<int> round_;    // the lowest rank of each process, from the one after this
  std::map<int, Seen> seen_;  // by that rank
};

}  // namespace anello::control
