#pragma once
// The totals of one rank's schedule, in elements of the call's type.
#include "schedule/schedule.h"

#include <cstddef>
#include <vector>

namespace anello::schedule {

struct PeerTotals {
  int peer = -1;
  std::size_t sent = 0;
  std::size_t received = 0;
  std::size_t messages = 0;  // sent
};

struct Totals {
  std::size_t sent = 0;      // in messages, written once to the board for all to read, or stored into peers' buffers
  std::size_t received = 0;  // in messages, or read from others' lines of the board or from their buffers
  std::size_t reduced = 0;   // combined with existing elements
  std::size_t copied = 0;    // within this rank, including a division at the end
  std::size_t messages = 0;  // sent
  std::vector<PeerTotals> peers;  // by rising peer; those that messages go to or come from
};

Totals totals(const Call& call, int size, int rank, const Schedule& schedule);

}  // namespace anello::schedule
