#pragma once
// Asks the user's script, every second, which hosts an elastic job may use.
#include "anellorun/descriptor.h"
#include "anellorun/host.h"
#include "anellorun/hosts.h"

#include <signal.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace anellorun {

class Discovery {
 public:
  using Listed = std::function<void(std::vector<HostSlots>)>;
  using Say = std::function<void(const std::string&)>;

  // slots: of a host for which the script gives no number; signals: the mask with which this process was started.
  Discovery(std::string script, int slots, const sigset_t& signals, Listed listed, Say say);
  // Kills the script if it runs.
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  // To poll for input; -1: nothing now.
  int descriptor() const { return output_.get(); }
  void take();
  void child_ended();
  Clock::time_point deadline() const { return next_at_; }
  // Throws std::runtime_error if the first run of the script has failed.
  void keep_deadlines(Clock::time_point now);

 private:
  void begin(Clock::time_point now);
  void conclude();

  const std::string script_;
  const int slots_;
  const sigset_t signals_;
  const Listed listed_;
  const Say say_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  Descriptor output_;
  std::string said_;
  std::string wrong_;  // with the last run
  bool has_listed_ = false;
  bool late_ = false;          // it has been killed for this
  Clock::time_point next_at_;  // to run it, or to kill it
};

}  // namespace anellorun
