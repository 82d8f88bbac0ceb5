#include "anellorun/local_ranks.h"

#include "anellorun/frames.h"
#include "anellorun/orphans.h"
#include "anellorun/placement.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace anellorun {
namespace {

constexpr auto kMercy = std::chrono::milliseconds(1000);

}  // namespace

LocalRanks::LocalRanks(const Share& share, Job& job, Events& events) : share_(share), job_(job), events_(events) {
  deaths_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!deaths_) fail("epoll_create1");
  adopt_orphans();
}

LocalRanks::~LocalRanks() {
  for (Process& process : processes_) {
    if (process.ended) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
}

void LocalRanks::start(int input, const sigset_t& signals) {
  const auto cpus = placement(share_);
  const int usable = usable_processors();
  const int together = std::max(share_.ranks, share_.slots);
  const auto threads = threads_of_ranks(share_, cpus, usable);
  const auto own = std::find_if(threads.begin(), threads.end(),
                                [](const Threads& each) { return each.from == Threads::From::share; });
  if (together > 1 && own != threads.end()) {
    const bool alike = std::count(threads.begin(), threads.end(), *own) == share_.ranks;
    events_.threads(share_.first + static_cast<int>(own - threads.begin()),
                    {together, usable, std::stoi(own->value), alike});
  }
  processes_.reserve(static_cast<std::size_t>(share_.ranks));
  told_gone_.resize(static_cast<std::size_t>(share_.ranks));
  for (std::size_t i = 0; i < static_cast<std::size_t>(share_.ranks); ++i) {
    const int rank = share_.first + static_cast<int>(i);
    const cpu_set_t* const set = cpus.empty() ? nullptr : &cpus[i];
    if (set != nullptr) events_.bound(rank, describe(*set));
    processes_.push_back(anellorun::start(share_, job_, rank, rank == 0 ? input : -1, signals, set, threads[i].value));
    Process& process = processes_.back();
    ++alive_;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (process.pidfd && epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, process.pidfd.get(), &event) != 0) fail("epoll_ctl");
    sources_.push_back({rank, kOutput, std::move(process.output)});
    sources_.push_back({rank, kErrors, std::move(process.errors)});
  }
}

void LocalRanks::watch(std::vector<pollfd>& into) {
  into.push_back({deaths_.get(), POLLIN, 0});
  for (Source& source : sources_) {
    if (source.fd && events_.unread(source.stream)) source.fd.close();
    into.push_back({source.fd && !events_.full(source.stream) ? source.fd.get() : -1, POLLIN, 0});
  }
  for (const Process& process : processes_) into.push_back({process.messages.get(), POLLIN, 0});
}

void LocalRanks::take(const pollfd* entries) {
  // Output comes before deaths: a rank's last output precedes the report of its death.
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (entries[1 + i].revents != 0) read_some(sources_[i]);
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (entries[1 + sources_.size() + i].revents != 0) read_message(processes_[i]);
  }
  if (entries[0].revents != 0) take_deaths();
}

// False if there was nothing to read.
bool LocalRanks::read_some(Source& source) {
  if (!source.fd) return false;
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = ::read(source.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    source.fd.close();
    return false;
  }
  events_.output(source.rank, source.stream, {buffer.data(), static_cast<std::size_t>(got)});
  return true;
}

// False if there was none.
bool LocalRanks::read_message(Process& process) {
  if (!process.messages) return false;
  std::array<char, kMaxMessage> buffer;
  const ssize_t got = ::recv(process.messages.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    process.messages.close();
    return false;
  }
  events_.told(process.rank, {buffer.data(), static_cast<std::size_t>(got)});
  return true;
}

// A rank that takes no messages does not hear of changes; there are few, and none waits for it to read them.
void LocalRanks::tell(int rank, std::string_view message) {
  if (!share_.has(rank)) return;
  const Process& process = processes_[static_cast<std::size_t>(rank - share_.first)];
  if (process.messages) ::send(process.messages.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void LocalRanks::take_deaths() {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(deaths_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) note_death(processes_[events[static_cast<std::size_t>(i)].data.u64]);
}

// Checks ranks without a process descriptor, which SIGCHLD may concern.
void LocalRanks::look_for_deaths() {
  for (Process& process : processes_) {
    siginfo_t ended{};
    if (process.ended || process.pidfd) continue;
    constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
    if (waitid(P_PID, static_cast<id_t>(process.pid), &ended, kLook) == 0 && ended.si_pid != 0) note_death(process);
  }
}

void LocalRanks::note_death(Process& process) {
  while (waitpid(process.pid, &process.status, 0) != process.pid) {
    if (errno != EINTR) fail("waitpid");
  }
  process.ended = true;
  process.messages.close();
  process.pidfd.close();  // also leaves the epoll
  --alive_;
  read_rest(process.rank);
  events_.ended(process.rank, process.pid, process.status);
  tell_gone();
}

void LocalRanks::child_ended() {
  look_for_deaths();
  reap_orphans([this](pid_t pid) { return is_rank(pid); });
  tell_gone();
}

// A process that a rank's program has left behind may still be that rank: a shell may have started it and ended.
void LocalRanks::tell_gone() {
  if (std::none_of(
          processes_.begin(), processes_.end(),
          [this](const Process& process) {
    return process.ended && !told_gone_[static_cast<std::size_t>(process.rank - share_.first)];
          }) ||
      !left_behind().empty()) {
    return;
  }
  for (const Process& process : processes_) {
    const auto i = static_cast<std::size_t>(process.rank - share_.first);
    if (!process.ended || told_gone_[i]) continue;
    told_gone_[i] = true;
    job_.note_ended(process.rank);
    events_.gone(process.rank);
  }
}

void LocalRanks::read_rest(int rank) {
  for (int stream = 0; stream < kStreams; ++stream) {
    Source& source = sources_[static_cast<std::size_t>(kStreams * (rank - share_.first) + stream)];
    // Reads as much as a pipe holds, so that an orphan that keeps writing does not keep us here.
    for (int i = 0; i < 16 && !events_.full(source.stream) && read_some(source); ++i) {
    }
  }
}

void LocalRanks::signal(int number, bool also_orphans) {
  // None of these pids can belong to another process: a child keeps its pid until it is waited for.
  for (const Process& process : processes_) {
    if (!process.ended) kill(process.pid, number);
  }
  if (!also_orphans) return;
  for (pid_t pid : left_behind()) kill(pid, number);
}

void LocalRanks::finish() {
  if (finishing_) return;
  finishing_ = true;
  signal(SIGTERM, true);
  kill_at_ = Clock::now() + kMercy;
}

void LocalRanks::keep_deadlines(Clock::time_point now) {
  if (!finishing_) return;
  if (alive_ > 0 || !left_behind().empty()) {
    if (now < *kill_at_) return;
    signal(SIGKILL, true);
    kill_at_ = now + kMercy;  // again, for processes that the killed ones leave behind
    return;
  }
  kill_at_.reset();
  // Nobody is left who holds the other ends of the pipes: what is in them now is all that will ever come.
  for (Source& source : sources_) {
    while (source.fd && !events_.full(source.stream)) {
      if (!read_some(source)) source.fd.close();
    }
  }
}

void LocalRanks::stood_still(Clock::duration time) {
  if (kill_at_) *kill_at_ += time;
}

bool LocalRanks::done() const {
  return finishing_ && alive_ == 0 &&
         std::none_of(sources_.begin(), sources_.end(), [](const Source& source) { return bool(source.fd); }) &&
         left_behind().empty();
}

bool LocalRanks::is_rank(pid_t pid) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [pid](const Process& process) { return !process.ended && process.pid == pid; });
}

std::vector<pid_t> LocalRanks::left_behind() const {
  return orphans([this](pid_t pid) { return is_rank(pid); });
}

}  // namespace anellorun
