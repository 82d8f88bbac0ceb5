#pragma once
// The kernel's information on another process of this process namespace.
#include "base/unique_fd.h"

#include <cstdint>

namespace anello::control {

// Repeated reads are cheap. It reports nothing for a process that has ended, even if its number is reused.
class ProcessState {
 public:
  explicit ProcessState(std::int64_t pid);
  // Whether a signal or a debugger has stopped it. False if this is unknown.
  bool stopped() const;

 private:
  UniqueFd status_;
};

}  // namespace anello::control
