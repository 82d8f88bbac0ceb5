#pragma once
// Descriptors that become readable when an operation of the rank ends: for event loops, and for threads that wait for
// several ranks. Requires the rank's lock.
#include "base/unique_fd.h"

#include <vector>

namespace anello::progress {

class CompletionBells {
 public:
  // The caller's eventfd.
  void add(int descriptor) { bells_.push_back(descriptor); }
  void remove(int descriptor);
  // An eventfd that is kept here, and made at the first request. Throws Error.
  int own();
  // Empties it; the owners of the others empty those.
  void silence_own();

  void ring_all() const;

 private:
  UniqueFd own_;
  std::vector<int> bells_;
};

}  // namespace anello::progress
