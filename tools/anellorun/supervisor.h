#pragma once
// Supervises a job from its start to its end, in one thread and one poll loop: deaths in the order in which they
// happen, output, signals, and the deadlines of an end that has begun.
//
//   running --a rank fails--> failing (0.5 s: the others report it) --> ending (SIGTERM) --1 s--> SIGKILL
//      |--the timeout or a second SIGINT----------------------------------------^
//      `--all ranks have ended--> their orphans are ended likewise --> done
#include "anellorun/job.h"
#include "anellorun/options.h"
#include "anellorun/output.h"
#include "anellorun/process.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace anellorun {

class Supervisor {
 public:
  // Blocks the signals that it handles; ranks start with the previous mask. Throws std::system_error.
  explicit Supervisor(const Options& options);
  // Kills all processes that still run.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts all ranks. Throws CannotStart, std::system_error.
  void start(Job& job);
  // Returns the job's exit code when all its processes have ended and its output is written.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void poll_once();
  int poll_milliseconds() const;
  void take_deaths();
  void take_signals();
  void look_for_deaths();
  void note_death(Process& process);
  void tell_ended();
  void keep_deadlines();
  void begin_end();
  void stop_here();
  void drain(int rank);
  void send_all(int signal, bool also_orphans);
  bool is_rank(pid_t pid) const;
  std::string name(const Process& process) const;
  std::string living() const;
  void say(const std::string& text) { errors_.put("anellorun: " + text + "\n"); }

  const Options& options_;
  Job* job_ = nullptr;
  sigset_t original_signals_{};
  Descriptor signals_;
  Descriptor deaths_;  // epoll: its ready list keeps the order in which ranks died
  std::string host_;
  std::vector<Process> processes_;
  int alive_ = 0;
  Sink output_;
  Sink errors_;
  std::vector<Source> sources_;  // two per rank: output, errors

  std::optional<int> exit_code_;  // known with the first failure
  bool any_succeeded_ = false;
  bool cut_short_ = false;  // by --timeout or a second signal
  bool asked_to_end_ = false;
  int failures_named_ = 0;
  std::optional<Clock::time_point> timeout_at_;
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace anellorun
