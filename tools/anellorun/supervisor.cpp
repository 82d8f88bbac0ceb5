#include "anellorun/supervisor.h"

#include "anellorun/hosts.h"
#include "anellorun/local_ranks.h"
#include "anellorun/meeting_place.h"
#include "anellorun/process.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace anellorun {
namespace {

using namespace std::chrono_literals;

// Their sum is below the two seconds that a failed job may take to end.
constexpr auto kLastWords = 500ms;
constexpr auto kMercy = 1000ms;
constexpr auto kHostsStart = 60s;
constexpr int kFailuresNamed = 8;

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

std::string seconds(double value) {
  std::string digits = std::to_string(value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + " s";
}

}  // namespace

TimedOut::TimedOut(double value, const std::string& when)
    : std::runtime_error(seconds(value) + " have passed (--timeout)" + when) {}

// EPIPE says that a reader left.
Supervisor::Supervisor(const Options& options, std::optional<Clock::time_point>& timeout_at)
    : options_(options),
      signals_(kPassedOn, {SIGPIPE, SIGTTOU}),
      output_(STDOUT_FILENO),
      errors_(STDERR_FILENO),
      timeout_at_(timeout_at) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  host_ = host.data();
  if (options.elastic) return;
  shares_.assign(options.shares.begin(), options.shares.end());
  for (int rank = 0; rank < options.world(); ++rank) add_rank(rank);
}

Supervisor::~Supervisor() = default;

void Supervisor::add_rank(int rank) {
  const bool on_screen = options_.log_folder.empty() || options_.tee;
  Rank& each = ranks_.emplace_back();
  const std::string number = std::to_string(rank), tag = options_.tag_output ? "[" + number + "] " : "";
  if (!options_.log_folder.empty())
    each.log.open(options_.log_folder + "/rank-" + number + ".log", options_.shares.front().restart());
  each.output.emplace(tag, on_screen ? &output_ : nullptr, &each.log);
  each.errors.emplace(tag, on_screen ? &errors_ : nullptr, &each.log);
}

void Supervisor::start() {
  for (const Share& share : shares_) alive_ += share.ranks;
  if (options_.elastic) {
    start_elastic();
  } else if (options_.on_agents) {
    start_on_hosts();
  } else {
    start_here();
  }
  started_ = true;
}

void Supervisor::start_here() {
  const Share& share = shares_.front();
  const bool alone = !options_.others_start_too;
  const std::string name = alone && options_.job_name.empty() ? new_job_name() : options_.job_name;
  MeetingPlace place =
      options_.place ? *options_.place : place_on_this_host(variable("ANELLO_PORT_RANGE", share.program_of(0)));
  job_ = std::make_unique<Job>(name, alone ? &secret_ : nullptr, std::move(place), share.world);
  auto ranks = std::make_unique<LocalRanks>(share, *job_, static_cast<Events&>(*this));
  LocalRanks& here = *ranks;
  hosts_.push_back(std::move(ranks));
  here.start(STDIN_FILENO, signals_.original());
}

void Supervisor::start_on_hosts() {
  std::vector<RemoteHost*> hosts;
  JobOrder order{
      options_.job_name.empty() ? new_job_name() : options_.job_name, options_.folder, environment_for_others(), {}};
  for (const Share& share : shares_) {
    auto command = agent_command(share.host, variable("ANELLO_SSH"), options_.agent_path);
    auto host =
        std::make_unique<RemoteHost>(std::move(command), share, static_cast<HostEvents&>(*this), signals_.original());
    hosts.push_back(host.get());
    hosts_.push_back(std::move(host));
    order.share = share;
    hosts.back()->send_job(order, secret_);
  }
  const auto wait = [this](const std::function<bool()>& holds, std::chrono::seconds time) {
    return this->wait(holds, time);
  };
  const Program& first = shares_.front().program_of(0);  // rank 0 listens at the place
  const std::string port = std::to_string(options_.port);
  const std::string ports = options_.port != 0 ? port + "-" + port : variable("ANELLO_PORT_RANGE", first);
  const MeetingPlace found = find_meeting_place(hosts, wanted_interfaces(first), ports, wait);
  const MeetingPlace place = options_.place.value_or(found);
  for (RemoteHost* host : hosts) host->start(place);
  const auto started = [&] {
    return std::all_of(hosts.begin(), hosts.end(), [](RemoteHost* h) { return h->started(); });
  };
  started_ = true;  // ranks may fail before the last host has answered
  if (!wait([&] { return started() || exit_code_; }, kHostsStart))
    throw std::runtime_error("not all hosts have started their ranks within " + std::to_string(kHostsStart / 1s) +
                             " s");
  first_host_ = hosts.front();
  input_open_ = true;
}

bool Supervisor::wait(const std::function<bool()>& holds, std::chrono::seconds time) {
  const auto end = Clock::now() + time;
  while (!holds()) {
    if (Clock::now() > end) return false;
    poll_once();
    if (lost_before_start_) {
      while (errors_.pending()) poll_once();
      throw std::runtime_error(*lost_before_start_);
    }
  }
  return true;
}

int Supervisor::run() {
  while (alive_ > 0 || (roster_ && roster_->waits() && !cut_short_ && !signalled_)) poll_once();
  terminate_at_ = kill_at_ = std::nullopt;
  finishing_ = true;
  asked_to_end_ = false;  // from here on, a signal means: do not wait for a reader that does not read
  for (const auto& host : hosts_) host->finish();
  const auto done = [this] {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->done(); });
  };
  while (!done() && !(asked_to_end_ && (output_.full() || errors_.full()))) poll_once();
  for (Rank& rank : ranks_) {
    rank.output->end();
    rank.errors->end();
  }
  report_first_failure();
  while ((output_.pending() || errors_.pending()) && !asked_to_end_) poll_once();
  if (options_.keep_going && any_succeeded_ && !cut_short_) return 0;
  return exit_code_.value_or(0);
}

int Supervisor::poll_milliseconds() const {
  std::optional<Clock::time_point> next;
  std::vector<std::optional<Clock::time_point>> others{terminate_at_, kill_at_};
  if (timeout_counts()) others.push_back(timeout_at_);
  for (const auto& host : hosts_) others.push_back(host->deadline());
  if (roster_ && !finishing_) others.push_back(roster_->deadline());
  if (discovery_ && !finishing_) others.push_back(discovery_->deadline());
  for (const auto& at : others) {
    if (at && (!next || *at < *next)) next = at;
  }
  if (!started_) next = std::min(next.value_or(Clock::time_point::max()), Clock::now() + 1s);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

void Supervisor::poll_once() {
  start_pending();
  std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
  for (Sink* sink : {&output_, &errors_}) watched.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
  // A process in the background that reads its terminal would be stopped.
  const bool may_read =
      input_open_ && first_host_->wants_input() && (isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp());
  watched.push_back({may_read ? STDIN_FILENO : -1, POLLIN, 0});
  watched.push_back({discovery_ ? discovery_->descriptor() : -1, POLLIN, 0});
  std::vector<std::size_t> begins;
  for (const auto& host : hosts_) {
    begins.push_back(watched.size());
    host->watch(watched);
  }
  const int ready = poll(watched.data(), watched.size(), poll_milliseconds());
  if (ready < 0 && errno != EINTR) fail("poll");
  if (ready > 0) {
    for (std::size_t i = 0; i < begins.size(); ++i) {
      try {
        hosts_[i]->take(watched.data() + begins[i]);
      } catch (const CannotStart& failure) {
        if (!roster_ || !roster_->has_begun()) throw;
        say("cannot start '" + failure.program + "' on host " + failure.host + ": " + strerror(failure.code));
      }
    }
    if (watched[0].revents != 0) take_signals();
    if (watched[1].revents != 0) output_.write_some();
    if (watched[2].revents != 0) errors_.write_some();
    if (watched[3].revents != 0) read_input();
    if (watched[4].revents != 0) discovery_->take();
  }
  keep_deadlines();
}

void Supervisor::read_input() {
  std::array<char, kMaxPiece> buffer;
  const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  input_open_ = got > 0;
  first_host_->give_input({buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0});
}

void Supervisor::output(int rank, Stream stream, std::string_view bytes) {
  Rank& from = ranks_[static_cast<std::size_t>(rank)];
  (stream == kOutput ? from.output : from.errors)->put(bytes);
}

void Supervisor::ended(int rank, pid_t pid, int status) {
  ranks_[static_cast<std::size_t>(rank)].ended = true;
  --alive_;
  if (rank == 0) input_open_ = false;
  const bool let_go = roster_ && roster_->lets_go(rank);
  any_succeeded_ = any_succeeded_ || (status == 0 && !let_go);
  if (roster_) finish_with(rank);
  if (roster_) roster_->ended(rank, status == 0, Clock::now());
  if (status == 0 || kill_at_) return;  // a rank that ends after we ended it is no news
  const std::string what = "rank " + std::to_string(rank) + " (host " + host_of(rank) + ", pid " + std::to_string(pid) +
                           ") " + describe_end(status);
  if (++failures_named_ <= kFailuresNamed) say(what);
  if (failures_named_ == kFailuresNamed + 1) say("more ranks have failed");
  note_failure(exit_code(status), what, rank);
}

void Supervisor::note_failure(int code, const std::string& what, int rank) {
  if (!first_failure_) first_failure_ = Failure{what, rank, printed()};
  if (exit_code_) return;
  exit_code_ = code;
  if (!options_.keep_going) terminate_at_ = Clock::now() + kLastWords;
}

// Where much may have been printed since, the cause is the last thing on the screen.
void Supervisor::report_first_failure() {
  if (!first_failure_) return;
  const bool unseen = !options_.log_folder.empty() && !options_.tee;
  if (first_failure_->printed == printed() && !unseen) return;
  std::string text = "the first failure: " + first_failure_->what;
  if (first_failure_->rank >= 0) {
    const auto& lines = ranks_[static_cast<std::size_t>(first_failure_->rank)].log.last_lines();
    text += lines.empty() ? "; it had printed nothing" : "; its last lines:";
    for (const std::string& line : lines) text += "\n    " + line;
  }
  say(text);
}

void Supervisor::gone(int rank) {
  if (roster_) return;  // workers meet only with those that are there
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!shares_[i].has(rank)) hosts_[i]->note_gone(rank);
  }
}

void Supervisor::said(const Share& share, std::string_view line) {
  say("host " + share.host + ": " + std::string(line));
}

void Supervisor::lost(const Share& share, const std::string& why) {
  if (!started_) {
    if (!lost_before_start_) lost_before_start_ = "host " + share.host + ": " + why;
    return;
  }
  int lost_here = 0;
  for (int rank = share.first; rank < share.first + share.ranks; ++rank) {
    Rank& each = ranks_[static_cast<std::size_t>(rank)];
    if (each.ended) continue;
    each.ended = true;
    --alive_;
    ++lost_here;
    gone(rank);
    if (roster_) roster_->ended(rank, false, Clock::now());
  }
  if (lost_here == 0 && finishing_ && exit_code_) return;
  const int last = share.first + share.ranks - 1;
  const std::string what = "host " + share.host + " is lost, with " +
                           (share.ranks == 1 ? "rank " + std::to_string(last)
                                             : "ranks " + std::to_string(share.first) + " to " + std::to_string(last)) +
                           ": " + why;
  say(what);
  note_failure(signalled_ ? 128 + *signalled_ : kExitHostLost, what, -1);
}

void Supervisor::take_signals() {
  while (const auto info = signals_.next()) {
    const int signal = static_cast<int>(info->ssi_signo);
    if (signal == SIGCHLD) {
      for (const auto& host : hosts_) host->child_ended();
      if (discovery_) discovery_->child_ended();
      continue;
    }
    if (!started_ && ends_a_job(signal)) throw Interrupted{signal};
    // A key of the terminal has also reached the ranks that are here, because they are in the same foreground group.
    const bool from_terminal = info->ssi_code == SI_KERNEL;
    if (ends_a_job(signal)) {
      signalled_ = signal;
      if (roster_) roster_->close();  // before the ranks end, so that nobody takes their places
      if (!asked_to_end_ && !from_terminal)
        say(std::string("SIG") + sigabbrev_np(signal) + " passed on to " + living());
    }
    // A process group without a shell above it ignores SIGTSTP.
    if (!from_terminal || options_.on_agents) signal_all(signal == SIGTSTP ? SIGSTOP : signal, false);
    if (signal == SIGTSTP) stop_here();
    if (ends_a_job(signal)) {
      if (asked_to_end_) {
        say(std::string("a second signal: killing ") + living());
        if (!exit_code_ || options_.keep_going) exit_code_ = 128 + signal;
        cut_short_ = true;
        begin_end();
        kill_at_ = Clock::now();
      }
      asked_to_end_ = true;
    }
  }
}

void Supervisor::stop_here() {
  const auto before = Clock::now();
  raise(SIGSTOP);
  const auto away = Clock::now() - before;
  for (auto* at : {&timeout_at_, &terminate_at_, &kill_at_}) {
    if (*at) **at += away;  // the time while everything was stopped does not count
  }
  for (const auto& host : hosts_) host->stood_still(away);
}

void Supervisor::keep_deadlines() {
  const auto now = Clock::now();
  if (timeout_counts() && now >= *timeout_at_) {
    if (!started_) throw TimedOut(options_.timeout_seconds, " before the ranks could start");
    timeout_at_.reset();
    say(seconds(options_.timeout_seconds) + " have passed (--timeout): ending " + living());
    exit_code_ = kExitTimeout;
    cut_short_ = true;
    terminate_at_ = now;
  }
  if (terminate_at_ && now >= *terminate_at_) {
    if (alive_ > 0 && exit_code_ != kExitTimeout) say("ending the other " + living());
    begin_end();
  }
  if (kill_at_ && now >= *kill_at_) {
    signal_all(SIGKILL, true);
    kill_at_ = now + kMercy;  // again, for processes that the killed ones leave behind
  }
  for (const auto& host : hosts_) host->keep_deadlines(now);
  if (finishing_) return;
  if (discovery_) discovery_->keep_deadlines(now);
  if (roster_) roster_->keep_deadlines(now);
}

void Supervisor::begin_end() {
  terminate_at_.reset();
  if (roster_) roster_->close();
  if (kill_at_) return;
  signal_all(SIGTERM, true);
  kill_at_ = Clock::now() + kMercy;
}

void Supervisor::signal_all(int signal, bool also_orphans) {
  for (const auto& host : hosts_) host->signal(signal, also_orphans);
}

std::string Supervisor::host_of(int rank) const {
  for (const Share& share : shares_) {
    if (share.has(rank) && !share.host.empty()) return share.host;
  }
  return host_;
}

std::string Supervisor::living() const { return std::to_string(alive_) + (alive_ == 1 ? " rank" : " ranks"); }

}  // namespace anellorun
