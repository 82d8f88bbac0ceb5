#include "anellorun/supervisor.h"

#include "anellorun/orphans.h"
#include "anellorun/placement.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace anellorun {
namespace {

using namespace std::chrono_literals;

// Their sum is below the two seconds that a failed job may take to end.
constexpr auto kLastWords = 500ms;
constexpr auto kMercy = 1000ms;
constexpr int kFailuresNamed = 8;

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

std::string seconds(double value) {
  std::string digits = std::to_string(value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + " s";
}

}  // namespace

Supervisor::Supervisor(const Options& options) : options_(options), output_(STDOUT_FILENO), errors_(STDERR_FILENO) {
  sigset_t watched;
  sigemptyset(&watched);
  for (int signal : kPassedOn) sigaddset(&watched, signal);
  sigaddset(&watched, SIGCHLD);
  sigset_t blocked = watched;
  sigaddset(&blocked, SIGPIPE);  // a reader that left is seen as EPIPE
  sigaddset(&blocked, SIGTTOU);
  if (sigprocmask(SIG_BLOCK, &blocked, &original_signals_) != 0) fail("sigprocmask");
  signals_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail("signalfd");
  deaths_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!deaths_) fail("epoll_create1");
  adopt_orphans();
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  host_ = host.data();
}

Supervisor::~Supervisor() {
  for (Process& process : processes_) {
    if (process.ended) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
}

void Supervisor::start(Job& job) {
  job_ = &job;
  const auto cpus = placement(options_);
  processes_.reserve(static_cast<std::size_t>(options_.ranks));
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    processes_.push_back(anellorun::start(options_, job, rank, original_signals_, cpus.empty() ? nullptr : &cpus[i]));
    Process& process = processes_.back();
    ++alive_;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (process.pidfd && epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, process.pidfd.get(), &event) != 0) fail("epoll_ctl");
    const std::string tag = options_.tag_output ? std::string("[").append(std::to_string(rank)).append("] ") : "";
    sources_.emplace_back(std::move(process.output), tag, output_);
    sources_.emplace_back(std::move(process.errors), tag, errors_);
  }
  if (options_.timeout_seconds > 0) {
    const std::chrono::duration<double> patience(std::min(options_.timeout_seconds, 1e9));
    timeout_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  }
}

int Supervisor::run() {
  const auto ranks = [this](pid_t pid) { return is_rank(pid); };
  while (alive_ > 0) poll_once();
  // Orphans hold the ends of our pipes: the output is complete only when they are gone.
  timeout_at_.reset();
  terminate_at_ = Clock::now();
  while (!orphans(ranks).empty()) poll_once();
  timeout_at_ = terminate_at_ = kill_at_ = std::nullopt;
  asked_to_end_ = false;  // from here on, a signal means: do not wait for a reader that does not read
  for (Source& source : sources_) {
    while (source.open() && !asked_to_end_) {
      if (source.sink().full()) {
        poll_once();
      } else if (!source.read_some()) {
        source.close();
      }
    }
  }
  while ((output_.pending() || errors_.pending()) && !asked_to_end_) poll_once();
  if (options_.keep_going && any_succeeded_ && !cut_short_) return 0;
  return exit_code_.value_or(0);
}

int Supervisor::poll_milliseconds() const {
  std::optional<Clock::time_point> next;
  for (const auto& at : {timeout_at_, terminate_at_, kill_at_}) {
    if (at && (!next || *at < *next)) next = at;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

void Supervisor::poll_once() {
  std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}, {deaths_.get(), POLLIN, 0}};
  for (Sink* sink : {&output_, &errors_}) watched.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
  for (Source& source : sources_) {
    if (source.open() && source.sink().gone()) source.close();
    watched.push_back({source.open() && !source.sink().full() ? source.fd() : -1, POLLIN, 0});
  }
  const int ready = poll(watched.data(), watched.size(), poll_milliseconds());
  if (ready < 0 && errno != EINTR) fail("poll");
  if (ready > 0) {
    // Output comes before deaths: a rank's last output precedes the line that reports its death.
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (watched[4 + i].revents != 0) sources_[i].read_some();
    }
    if (watched[1].revents != 0) take_deaths();
    if (watched[0].revents != 0) take_signals();
    if (watched[2].revents != 0) output_.write_some();
    if (watched[3].revents != 0) errors_.write_some();
  }
  keep_deadlines();
}

void Supervisor::take_deaths() {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(deaths_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) note_death(processes_[events[static_cast<std::size_t>(i)].data.u64]);
}

// Checks ranks without a process descriptor, which SIGCHLD may concern.
void Supervisor::look_for_deaths() {
  for (Process& process : processes_) {
    siginfo_t ended{};
    if (process.ended || process.pidfd) continue;
    constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
    if (waitid(P_PID, static_cast<id_t>(process.pid), &ended, kLook) == 0 && ended.si_pid != 0) note_death(process);
  }
}

void Supervisor::note_death(Process& process) {
  while (waitpid(process.pid, &process.status, 0) != process.pid) {
    if (errno != EINTR) fail("waitpid");
  }
  process.ended = true;
  process.pidfd.close();  // also leaves the epoll
  --alive_;
  drain(process.rank);
  tell_ended();
  any_succeeded_ = any_succeeded_ || !process.failed();
  if (!process.failed() || kill_at_) return;  // a rank that ends after we ended it is no news
  if (++failures_named_ <= kFailuresNamed) say(name(process) + " " + process.end());
  if (failures_named_ == kFailuresNamed + 1) say("more ranks have failed");
  if (!exit_code_) {
    exit_code_ = process.exit_code();
    if (!options_.keep_going) terminate_at_ = Clock::now() + kLastWords;
  }
}

// A process that a rank's program has left behind may still be that rank: a shell may have started it and ended.
void Supervisor::tell_ended() {
  if (alive_ == 0 || !orphans([this](pid_t pid) { return is_rank(pid); }).empty()) return;
  for (const Process& process : processes_) {
    if (process.ended) job_->note_ended(process.rank);
  }
}

void Supervisor::drain(int rank) {
  for (int stream = 0; stream < 2; ++stream) {
    Source& source = sources_[static_cast<std::size_t>(2 * rank + stream)];
    // Reads as much as a pipe holds, so that an orphan that keeps writing does not keep us here.
    for (int i = 0; i < 16 && source.open() && !source.sink().full() && source.read_some(); ++i) {
    }
  }
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      look_for_deaths();
      reap_orphans([this](pid_t pid) { return is_rank(pid); });
      tell_ended();
      continue;
    }
    // A key of the terminal has also reached the ranks, because they are in the same foreground group.
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    // A process group without a shell above it ignores SIGTSTP.
    if (!from_terminal) send_all(signal == SIGTSTP ? SIGSTOP : signal, false);
    if (signal == SIGTSTP) stop_here();
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) {
      if (asked_to_end_) {
        say(std::string("a second signal: killing ") + living());
        if (!exit_code_ || options_.keep_going) exit_code_ = 128 + signal;
        cut_short_ = true;
        begin_end();
        kill_at_ = Clock::now();
      } else if (!from_terminal) {
        say(std::string("SIG") + sigabbrev_np(signal) + " passed on to " + living());
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
}

void Supervisor::keep_deadlines() {
  const auto now = Clock::now();
  if (timeout_at_ && now >= *timeout_at_) {
    timeout_at_.reset();
    if (!exit_code_ || options_.keep_going) {
      say(seconds(options_.timeout_seconds) + " have passed (--timeout): ending " + living());
      exit_code_ = kExitTimeout;
      cut_short_ = true;
      terminate_at_ = now;
    }
  }
  if (terminate_at_ && now >= *terminate_at_) {
    if (alive_ > 0 && exit_code_ != kExitTimeout) say("ending the other " + living());
    begin_end();
  }
  if (kill_at_ && now >= *kill_at_) {
    send_all(SIGKILL, true);
    kill_at_ = now + kMercy;  // again, for processes that the killed ones leave behind
  }
}

void Supervisor::begin_end() {
  terminate_at_.reset();
  if (kill_at_) return;
  send_all(SIGTERM, true);
  kill_at_ = Clock::now() + kMercy;
}

void Supervisor::send_all(int signal, bool also_orphans) {
  // None of these pids can belong to another process: a child keeps its pid until it is waited for.
  for (const Process& process : processes_) {
    if (!process.ended) kill(process.pid, signal);
  }
  if (!also_orphans) return;
  for (pid_t pid : orphans([this](pid_t child) { return is_rank(child); })) kill(pid, signal);
}

bool Supervisor::is_rank(pid_t pid) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [pid](const Process& process) { return !process.ended && process.pid == pid; });
}

std::string Supervisor::name(const Process& process) const {
  return "rank " + std::to_string(process.rank) + " (host " + host_ + ", pid " + std::to_string(process.pid) + ")";
}

std::string Supervisor::living() const { return std::to_string(alive_) + (alive_ == 1 ? " rank" : " ranks"); }

}  // namespace anellorun
