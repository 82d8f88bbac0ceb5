#pragma once
// The ranks that this process starts: their deaths in the order in which they happen, their output, and the processes
// that they leave behind.
#include "anellorun/descriptor.h"
#include "anellorun/host.h"
#include "anellorun/job.h"
#include "anellorun/process.h"

#include <signal.h>

#include <memory>
#include <vector>

namespace anellorun {

class LocalRanks : public Host {
 public:
  // events, job and share must live as long. Throws std::system_error.
  LocalRanks(const Share& share, Job& job, Events& events);
  // Kills all processes that still run.
  ~LocalRanks() override;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  // Starts all ranks. signals: the mask with which this process was started; input: the standard input of rank 0, if it
  // is here. Throws CannotStart, std::system_error.
  void start(int input, const sigset_t& signals);

  void watch(std::vector<pollfd>& into) override;
  void take(const pollfd* entries) override;
  std::optional<Clock::time_point> deadline() const override { return kill_at_; }
  void keep_deadlines(Clock::time_point now) override;
  void child_ended() override;
  void stood_still(Clock::duration time) override;
  void signal(int number, bool also_orphans) override;
  void note_gone(int rank) override { job_.note_ended(rank); }
  void tell(int rank, std::string_view message) override;
  void finish() override;
  bool done() const override;

 private:
  struct Source {
    int rank;
    Stream stream;
    Descriptor fd;
  };

  bool read_some(Source& source);
  bool read_message(Process& process);
  void take_deaths();
  void look_for_deaths();
  void note_death(Process& process);
  void tell_gone();
  void read_rest(int rank);
  bool is_rank(pid_t pid) const;
  std::vector<pid_t> left_behind() const;

  const Share& share_;
  Job& job_;
  Events& events_;
  Descriptor deaths_;  // epoll: its ready list keeps the order in which ranks died
  std::vector<Process> processes_;
  std::vector<Source> sources_;  // two per rank: output, errors
  std::vector<bool> told_gone_;
  int alive_ = 0;
  bool finishing_ = false;
  std::optional<Clock::time_point> kill_at_;  // what is left, while finishing
};

}  // namespace anellorun
