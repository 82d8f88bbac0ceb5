#pragma once
// The test's side of rank_process: starts it, tells it what to do, waits for what it says, and ends it with the test.
#include "base/clock.h"
#include "base/unique_fd.h"

#include <csignal>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace anello::testing {

class RankHandle {
 public:
  // network_of: the process whose network namespace it lives in; -1: the test's.
  explicit RankHandle(const std::map<std::string, std::string>& environment = {}, pid_t network_of = -1) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    const int theirs = ends[1];  // not in a UniqueFd: the fork handler would close it in the child
    ours_ = UniqueFd(ends[0]);
    // All is ready before fork: other threads of the test may hold any lock.
    std::vector<std::string> settings;
    for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
    std::vector<char*> pointers;
    for (std::string& setting : settings) pointers.push_back(setting.data());
    for (char** variable = environ; *variable != nullptr; ++variable) pointers.push_back(*variable);
    pointers.push_back(nullptr);
    int network = -1;
    if (network_of > 0)
      network = ::open(("/proc/" + std::to_string(network_of) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
    char program[] = RANK_PROCESS;
    char* arguments[] = {program, nullptr};
    pid_ = ::fork();
    if (pid_ == 0) {
      if (network_of > 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(126);
      ::dup2(theirs, 0);
      ::dup2(theirs, 1);
      ::execve(program, arguments, pointers.data());
      ::_exit(127);
    }
    ::close(theirs);
    if (network >= 0) ::close(network);
  }
  RankHandle(RankHandle&& other) noexcept : ours_(std::move(other.ours_)), pid_(std::exchange(other.pid_, -1)) {}
  ~RankHandle() {
    if (pid_ > 0) kill();
  }

  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  void tell(const std::string& command) {
    const std::string line = command + "\n";
    if (::send(ours_.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
      throw std::runtime_error("the rank does not listen");
    }
  }
  // The next line that starts so; others are dropped. Empty after the limit.
  std::string hear(const std::string& start, std::int64_t limit_ms = 20'000) {
    const Deadline deadline = Deadline::in_ms(limit_ms);
    for (;;) {
      for (std::size_t end; (end = heard_.find('\n')) != std::string::npos;) {
        const std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        if (line.rfind(start, 0) == 0) return line;
        others_ += line + "\n";
      }
      pollfd look{ours_.get(), POLLIN, 0};
      if (::poll(&look, 1, static_cast<int>(deadline.left_ms())) <= 0) return {};
      char buffer[4096];
      const ssize_t got = ::recv(ours_.get(), buffer, sizeof buffer, 0);
      if (got <= 0) return {};
      heard_.append(buffer, static_cast<std::size_t>(got));
    }
  }
  std::string ask(const std::string& command, const std::string& start) {
    tell(command);
    return hear(start);
  }
  const std::string& others() const { return others_; }  // what hear has dropped

 private:
  UniqueFd ours_;
  pid_t pid_ = -1;
  std::string heard_;
  std::string others_;
};

inline std::string join_command(const std::string& url, int rank, int size, int timeout_ms = 30'000,
                                const std::string& transports = "-") {
  return "join " + url + " " + std::to_string(rank) + " " + std::to_string(size) + " " + std::to_string(timeout_ms) +
         " " + transports;
}

// A place of this test alone.
inline std::string fresh_url() {
  static int count = 0;
  return "unix://test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// size processes that have joined, or the reason why not in what they said last.
inline std::vector<RankHandle> join_processes(int size, const std::string& transports = "-", std::string url = {}) {
  if (url.empty()) url = fresh_url();
  std::vector<RankHandle> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    ranks[std::size_t(rank)].tell(join_command(url, rank, size, 30'000, transports));
  for (RankHandle& rank : ranks) {
    if (rank.hear("joined").empty()) throw std::runtime_error("a rank did not join: " + rank.others());
  }
  return ranks;
}

}  // namespace anello::testing
