#pragma once
// Who takes part in an elastic job: which workers run on which slots, and when they meet. A worker is a process with a
// number that is never used again; its rank is new whenever the workers meet. This is a state machine: it is told what
// has happened and says what to do.
//
//   starting --"ready"--> ready --"meet"--> at work --"ready"--> ready ..
//
// All workers meet at once, when each has said that it is ready. What travels between the launcher and a worker:
//
//   worker                    launcher
//   ready 0|1             ->             1: it has been at work before
//                         <-  open       to the oldest: make a place to meet
//   place HEX             ->
//                         <-  meet RANK SIZE NEWCOMERS HEX
//                         <-  changed added|removed      to those at work: say "ready" when it suits you
//                         <-  leave      the worker's slot is no longer listed
#include "anellorun/host.h"
#include "anellorun/hosts.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anellorun {

struct ElasticWishes {
  int first = 0;  // workers that meet at the beginning, at least
  int least = 0;  // and later
  int most = 0;
  std::optional<int> resets;      // how often they may meet anew
  double patience_seconds = 600;  // for fewer than they should be
  std::string script;             // that lists hosts; empty: they stay as they are
  int slots = 1;                  // of a host for which the script gives no number
  std::vector<HostSlots> hosts;   // without a script
};

class RosterActions {
 public:
  // Starts workers on consecutive slots of a host.
  virtual void start_workers(const HostSlots& host, int slot, int first, int count) = 0;
  virtual void tell(int worker, const std::string& message) = 0;
  virtual void say(const std::string& text) = 0;
  // The job cannot go on.
  virtual void give_up(const std::string& why) = 0;

 protected:
  ~RosterActions() = default;
};

class Roster {
 public:
  // Both must live as long.
  Roster(const ElasticWishes& wishes, RosterActions& actions) : wishes_(wishes), actions_(actions) {}

  void list(std::vector<HostSlots> hosts, Clock::time_point now);
  void told(int worker, std::string_view message, Clock::time_point now);
  void ended(int worker, bool succeeded, Clock::time_point now);
  // Nothing is started any more.
  void close() { closed_ = true; }
  bool has_begun() const { return meetings_ > 0; }
  // The worker's slot is no longer listed.
  bool lets_go(int worker) const {
    const auto found = workers_.find(worker);
    return found != workers_.end() && found->second.leaves;
  }

  // No worker runs, but one may start yet.
  bool waits() const;
  std::optional<Clock::time_point> deadline() const;
  void keep_deadlines(Clock::time_point now);

 private:
  enum class State { starting, ready, at_work };
  struct Slot {
    std::string host;
    int place;
    bool operator<(const Slot& other) const { return host != other.host ? host < other.host : place < other.place; }
  };
  struct Worker {
    Slot slot;
    Clock::time_point since;
    State state = State::starting;
    bool has_met = false;
    bool leaves = false;
  };

  bool is_listed(const Slot& slot) const;
  bool may_start(const Slot& slot) const;
  bool any_of_workers(const std::function<bool(const Worker&)>& holds) const;
  bool any(State state) const;
  int staying() const;
  void fill(Clock::time_point now);
  void tell_those_at_work(const std::string& message);
  void try_to_meet(Clock::time_point now);
  void meet(const std::string& place);
  void stop(const std::string& why);

  const ElasticWishes& wishes_;
  RosterActions& actions_;
  std::vector<HostSlots> hosts_;
  std::map<int, Worker> workers_;  // those that run, the oldest first
  std::map<Slot, int> failures_;   // one after the other, soon after the start
  int next_ = 0;
  int meetings_ = 0;
  std::optional<int> opening_;  // the worker that makes a place to meet
  bool closed_ = false;
  std::optional<Clock::time_point> ready_since_;  // all but those that start
  std::optional<Clock::time_point> patient_until_;
  std::optional<Clock::time_point> short_since_;  // fewer than they should be
};

}  // namespace anellorun
