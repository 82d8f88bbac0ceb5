#pragma once
// The sleeper's half of Inbox::sleeping; the other half is Arena::wake. Neither may miss the other: either the sleeper
// sees what was published before it looks for the last time, or the publisher sees that it sleeps.

#include "memory/arena.h"

namespace anello::memory {

// Belongs to one rank; the thread that drives the rank uses it.
class Sleeper {
 public:
  // From here on publishers for this rank write its wake-up descriptor, and the rank's next look finds everything
  // published before. Does nothing without an arena.
  void announce(const Arena& arena);
  // Publishers need not wake this rank any more: it looks itself.
  void take_back(const Arena& arena) const;
  // often: the rank's waits keep ending in sleep. A barrier over all processors is most of the cost of a sleep, so
  // while sleeps are frequent the peers make their stores visible themselves, at 5 ns each. While ranks yield they must
  // not.
  void sleeps_often(const Arena& arena, bool often);

 private:
  bool often_ = false;
  bool peers_fence_ = false;  // every publisher has read, or will read, Inbox::kFenced before it looks for kAsleep
};

}  // namespace anello::memory
