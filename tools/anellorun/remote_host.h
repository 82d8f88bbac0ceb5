#pragma once
// The ranks of another host: a remote shell that runs an agent there, and what has been heard of it.
#include "anellorun/channel.h"
#include "anellorun/host.h"
#include "anellorun/job.h"
#include "anellorun/job_order.h"
#include "anellorun/probe.h"

#include <signal.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace anellorun {

// From the start of the shell to the agent's first frame.
inline constexpr std::chrono::seconds kGreeting{30};

class HostEvents : public Events {
 public:
  // The way to the host, or its agent, is gone. Its ranks that had not ended count as ended.
  virtual void lost(const Share& share, const std::string& why) = 0;
  // A line from the remote shell itself.
  virtual void said(const Share& share, std::string_view line) = 0;

 protected:
  ~HostEvents() = default;
};

class RemoteHost : public Host {
 public:
  // shell: the words that start the agent there, host and command included. It runs in a session of its own: it asks
  // nothing of a terminal, and no key of the terminal ends it. share and events must live as long.
  // Throws std::system_error.
  RemoteHost(std::vector<std::string> shell, const Share& share, HostEvents& events, const sigset_t& signals);
  // Ends the shell; its agent then ends what runs there.
  ~RemoteHost() override;
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  const Share& share() const { return share_; }
  const std::string& name() const { return share_.host; }

  void send_job(const JobOrder& order, const Secret& secret);
  void ask_offers(const WantedInterfaces& interfaces, const std::string& ports);
  // May be asked again once it is answered.
  void ask_probe(const std::string& nonce, const std::vector<MeetingPlace>& places);
  // From here on signals reach its ranks; before, one that ends a job ends the shell.
  void start(const MeetingPlace& place);

  // The answers, once they are here.
  bool greeted() const { return greeted_; }
  bool started() const { return started_; }
  const std::optional<std::vector<MeetingPlace>>& offers() const { return offers_; }
  const std::string& nonce() const { return nonce_; }
  const std::optional<std::vector<Reach>>& probed() const { return probed_; }
  bool is_lost() const { return lost_; }

  // The standard input of rank 0: whether more may be given, and a piece of it; an empty one is its end.
  bool wants_input() const { return started_ && !ending_ && input_given_ < kMaxPiece; }
  void give_input(std::string_view bytes);
  // So many bytes of output have left the launcher, or will not stay with it.
  void note_taken();

  void watch(std::vector<pollfd>& into) override;
  void take(const pollfd* entries) override;
  std::optional<Clock::time_point> deadline() const override;
  void keep_deadlines(Clock::time_point now) override;
  void child_ended() override;
  void stood_still(Clock::duration time) override;
  void signal(int number, bool also_orphans) override;
  void note_gone(int rank) override;
  void tell(int rank, std::string_view message) override;
  void finish() override;
  bool done() const override { return pid_ < 0; }

 private:
  void take_frame(const Frame& frame);
  void take_errors();
  void give_up(std::string why, bool kill_now);
  void conclude();
  int own_rank(Reader& reader) const;
  Clock::time_point next_word_due() const;

  const Share& share_;
  HostEvents& events_;
  std::string shell_;  // its first word, for people
  pid_t pid_ = -1;     // -1: it has ended
  int status_ = 0;
  std::optional<Channel> channel_;
  Descriptor errors_;
  std::string partial_error_;
  std::string last_error_;
  bool greeted_ = false;
  bool asked_to_start_ = false;
  bool started_ = false;
  bool ending_ = false;  // nothing more comes
  bool over_ = false;    // the agent has said that it is done
  bool lost_ = false;
  std::string why_;
  std::optional<std::vector<MeetingPlace>> offers_;
  std::string nonce_;
  std::optional<std::vector<Reach>> probed_;
  std::set<int> running_;
  std::size_t input_given_ = 0;  // bytes that rank 0 has not taken yet
  std::array<std::size_t, kStreams> to_take_{};
  std::array<bool, kStreams> told_unread_{};
  std::string host_;  // as it calls itself
  Clock::time_point greets_by_;
  Clock::time_point heard_;
  Clock::time_point beat_at_;
  std::optional<Clock::time_point> kill_at_;  // the shell
};

}  // namespace anellorun
