#pragma once
// The participants, for the header: information from every rank, gathered on all of them.
#include <anello/anello.h>

#include <string>
#include <vector>

namespace perf {

struct Participant {
  std::string host;
  int pid = 0;
  int processors = 0;      // on which it may run
  std::string transports;  // "shm to 3 ranks", "shm to 1 rank, tcp to 2 ranks"; "" for a single rank
};

// By rank. Throws Failure.
std::vector<Participant> participants(anello_comm_t comm);

}  // namespace perf
