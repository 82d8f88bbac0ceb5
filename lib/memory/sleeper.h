#pragma once
// The sleeper's half of Inbox::sleeping; the other half is Arena::wake. Neither may miss the other: either the sleeper
// sees what was published before it looks for the last time, or the publisher sees that it sleeps.

#include "memory/arena.h"

namespace anello::memory {

// Of one rank, used by the thread that drives it.
class Sleeper {
 public:
  // From here on who publishes something for this rank writes its wake-up descriptor, and a look finds all that was
  // published before. Without an arena: nothing.
  void announce(const Arena& arena);
  // Nobody needs to wake this rank any more: it looks itself.
  void take_back(const Arena& arena) const;
  // Whether its waits end in sleep, one after the other. A barrier over all processors is most of what a sleep costs:
  // in a row of them the peers make their stores visible themselves, at 5 ns each. While ranks yield they shall not.
  void sleeps_often(const Arena& arena, bool often);

 private:
  bool often_ = false;
  bool peers_fence_ = false;  // every publisher has read, or will read, Inbox::kFenced before it looks for kAsleep
};

}  // namespace anello::memory
