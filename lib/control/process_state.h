#pragma once
// What the kernel says of another process of this process namespace.
#include "base/unique_fd.h"

#include <cstdint>

namespace anello::control {

// Reads again and again at little cost. Of a process that has ended it says nothing, also when its number is used
// again.
class ProcessState {
 public:
  explicit ProcessState(std::int64_t pid);
  // By a signal or a debugger. False where it cannot be told.
  bool stopped() const;

 private:
  UniqueFd status_;
};

}  // namespace anello::control
