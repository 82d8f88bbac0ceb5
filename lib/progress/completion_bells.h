#pragma once
// Descriptors that become readable when an operation of the rank ends: for event loops, and for threads that wait for
// several ranks. Requires the rank's lock.
#include "base/unique_fd.h"

#include <vector>

namespace anello::progress {

class CompletionBells {
 public:
  // An eventfd of the caller's.
  void add(int descriptor) { bells_.push_back(descriptor); }
  void remove(int descriptor);
  // One that is kept here, made when first asked for. Throws Error.
  int own();
  // Empties it; the others are their owners' to empty.
  void silence_own();

  void ring_all() const;

 private:
  UniqueFd own_;
  std::vector<int> bells_;
};

}  // namespace anello::progress
