#pragma once
// anellorun on another host: starts the ranks of that host for the launcher, with which it talks in frames over its
// standard input and output. When the launcher or the way to it is gone, it ends the ranks and then itself.
#include "anellorun/channel.h"
#include "anellorun/host.h"
#include "anellorun/job.h"
#include "anellorun/job_order.h"
#include "anellorun/local_ranks.h"
#include "anellorun/offers.h"
#include "anellorun/probe.h"
#include "anellorun/signals.h"

#include <array>
#include <memory>
#include <optional>
#include <string>

namespace anellorun {

// How often each side says that it is there, and after how long without a word the other side counts as gone.
inline constexpr std::chrono::milliseconds kBeat{2'000};
inline constexpr std::chrono::milliseconds kSilence{15'000};
// The first word of the command line that makes an anellorun an agent.
inline constexpr const char* kAgentWord = "--agent";

class Agent final : private Events {
 public:
  // Throws std::system_error.
  Agent();
  // Returns when nothing of the job is left on this host.
  int run();

 private:
  void poll_once();
  void take_frame(const Frame& frame);
  void take_job(Reader reader);
  void tell_offers();
  void begin_probe(Reader reader);
  void tell_probed();
  void start(MeetingPlace place);
  void take_signals();
  void write_input();
  void refuse(const std::string& why);
  void end_all();

  void bound(int rank, const std::string& processors) override;
  void threads(int rank, const ThreadsNote& note) override;
  void output(int rank, Stream stream, std::string_view bytes) override;
  void ended(int rank, pid_t pid, int status) override;
  void gone(int rank) override;
  void told(int rank, std::string_view message) override;
  bool full(Stream stream) const override { return untaken_[stream] >= kMaxUntaken; }
  bool unread(Stream stream) const override { return unread_[stream]; }

  Channel channel_;
  Signals signals_;
  std::unique_ptr<Secret> secret_;
  JobOrder order_;
  std::optional<Offers> offers_;
  std::optional<Probe> probe_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<LocalRanks> ranks_;
  Descriptor input_;  // of rank 0
  std::string input_waiting_;
  bool input_ends_ = false;
  std::array<std::size_t, kStreams> untaken_{};
  std::array<bool, kStreams> unread_{};
  bool launcher_gone_ = false;
  bool launcher_stopped_ = false;  // it stands still, so it is silent
  bool over_ = false;
  Clock::time_point heard_;
  Clock::time_point beat_at_;
};

}  // namespace anellorun
