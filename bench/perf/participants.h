#pragma once
// Who takes part, for the header: what every rank says about itself, gathered on all of them.
#include <anello/anello.h>

#include <string>
#include <vector>

namespace perf {

struct Participant {
  std::string host;
  int pid = 0;
  int processors = 0;      // that it may run on
  std::string transports;  // "shm to 3 ranks", "shm to 1 rank, tcp to 2 ranks"; "" when alone
};

// By rank. Throws Failure.
std::vector<Participant> participants(anello_comm_t comm);

}  // namespace perf
