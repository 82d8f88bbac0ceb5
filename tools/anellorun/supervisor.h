#pragma once
// Supervises a job from its start to its end, in one thread and one poll loop: deaths in the order in which they
// happen, output, signals, and the deadlines of an end that has begun.
//
//   running --a rank fails--> failing (0.5 s: the others report it) --> ending (SIGTERM) --1 s--> SIGKILL
//      |--the timeout or a second SIGINT----------------------------------------^
//      `--all ranks have ended--> what they have left behind is ended likewise --> done
#include "anellorun/discovery.h"
#include "anellorun/host.h"
#include "anellorun/job.h"
#include "anellorun/options.h"
#include "anellorun/output.h"
#include "anellorun/rank_log.h"
#include "anellorun/roster.h"
#include "anellorun/remote_host.h"
#include "anellorun/signals.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace anellorun {

// A signal came before any rank had started.
struct Interrupted {
  int signal;
};

// The time of --timeout has passed while no rank ran.
struct TimedOut : std::runtime_error {
  TimedOut(double seconds, const std::string& when);
};

class Supervisor final : private HostEvents, private RosterActions {
 public:
  // Blocks the signals that it handles; ranks start with the previous mask. timeout_at: when --timeout ends the job,
  // however often it is started; it must live as long, and moves on while this process stands still. Throws
  // std::system_error.
  Supervisor(const Options& options, std::optional<Clock::time_point>& timeout_at);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts all ranks. Throws CannotStart, Interrupted, TimedOut, std::runtime_error.
  void start();
  // Returns the job's exit code when all its processes have ended and its output is written.
  int run();
  // The user has asked for the end: by a signal or --timeout.
  bool was_cut_short() const { return cut_short_ || signalled_.has_value(); }

 private:
  void start_here();
  void start_on_hosts();
  void start_elastic();
  void start_pending();
  void add_rank(int rank);
  void finish_with(int rank);
  bool wait(const std::function<bool()>& holds, std::chrono::seconds time);

  void poll_once();
  int poll_milliseconds() const;
  void take_signals();
  void read_input();
  void keep_deadlines();
  // Whether its passing changes anything: not once the job has failed, nor while what is left is ended.
  bool timeout_counts() const { return timeout_at_ && !finishing_ && (!exit_code_ || options_.keep_going); }
  void begin_end();
  void stop_here();
  void signal_all(int signal, bool also_orphans);
  void note_failure(int code, const std::string& what, int rank);
  void report_first_failure();
  std::size_t printed() const { return output_.put_so_far() + errors_.put_so_far(); }
  std::string host_of(int rank) const;
  std::string living() const;
  void say(const std::string& text) override { errors_.put("anellorun: " + text + "\n"); }

  void bound(int rank, const std::string& processors) override;
  void threads(int rank, const ThreadsNote& note) override;
  void output(int rank, Stream stream, std::string_view bytes) override;
  void ended(int rank, pid_t pid, int status) override;
  void gone(int rank) override;
  bool full(Stream stream) const override { return sink(stream).full(); }
  bool unread(Stream stream) const override { return sink(stream).gone(); }
  void lost(const Share& share, const std::string& why) override;
  void said(const Share& share, std::string_view line) override;
  void told(int rank, std::string_view message) override;
  void start_workers(const HostSlots& host, int slot, int first, int count) override;
  void tell(int worker, const std::string& message) override;
  void give_up(const std::string& why) override;
  const Sink& sink(Stream stream) const { return stream == kOutput ? output_ : errors_; }

  struct Rank {
    RankLog log;
    std::optional<Lines> output, errors;
    bool ended = false;
  };
  struct Failure {
    std::string what;  // "rank 1 (..) ended with .."
    int rank;          // -1: a host was lost
    std::size_t printed;
  };

  const Options& options_;
  Signals signals_;
  std::string host_;
  Sink output_;
  Sink errors_;
  Secret secret_;
  std::unique_ptr<Job> job_;  // if the ranks are here
  std::deque<Rank> ranks_;    // they stay where they are
  std::deque<Share> shares_;  // one for each host, or for each start of workers
  std::vector<std::unique_ptr<Host>> hosts_;
  std::deque<const Share*> pending_;  // workers to start, each with the first of hosts_ that has none
  std::set<RemoteHost*> greeting_;    // start their workers once they have greeted
  std::string elastic_name_;
  std::optional<Roster> roster_;
  std::optional<Discovery> discovery_;
  RemoteHost* first_host_ = nullptr;  // with rank 0, if that is an agent's
  bool input_open_ = false;           // and rank 0 reads this process's standard input
  bool started_ = false;
  bool finishing_ = false;
  int alive_ = 0;

  std::optional<int> exit_code_;  // known with the first failure
  std::optional<Failure> first_failure_;
  std::optional<std::string> lost_before_start_;
  bool any_succeeded_ = false;
  bool cut_short_ = false;  // by --timeout or a second signal
  bool asked_to_end_ = false;
  std::optional<int> signalled_;  // by a signal that ends a job
  int failures_named_ = 0;
  std::set<std::string> bound_;  // the processors of ranks that have a core each, by host
  bool said_shared_core_ = false;
  bool said_threads_ = false;
  std::optional<Clock::time_point>& timeout_at_;
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace anellorun
