#pragma once
// The signals that this process takes from a descriptor instead of being ended by them.
#include "anellorun/descriptor.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>

namespace anellorun {

// What a terminal, a batch system or a person sends to end a job.
inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
inline bool ends_a_job(int signal) {
  return std::find(kEndingSignals.begin(), kEndingSignals.end(), signal) != kEndingSignals.end();
}

class Signals {
 public:
  // Blocks these and SIGCHLD, which next() returns, and those that are ignored. Throws std::system_error.
  Signals(std::span<const int> taken, std::initializer_list<int> ignored);

  int descriptor() const { return descriptor_.get(); }
  // The next one that has come.
  std::optional<signalfd_siginfo> next();
  // The mask from before the process's first Signals, for programs that it starts.
  const sigset_t& original() const { return *original_; }

 private:
  Descriptor descriptor_;
  const sigset_t* original_;
};

}  // namespace anellorun
