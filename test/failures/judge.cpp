#include "failures/judge.h"

#include "failures/rank.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace failures {

Ranks::Ranks(int count, const std::string& role, const std::string& transport, Settings settings) {
  static int jobs = 0;
  Settings environment{{"WORLD_SIZE", std::to_string(count)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29555"},  // on one host the name of an abstract socket, with the job's
                       {"ANELLO_JOB", "failures-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs)},
                       {"ANELLO_TRANSPORT", transport}};
  for (const auto& [name, value] : settings) {
    environment[name.compare(0, 7, "ANELLO_") == 0 ? name : "SETTING_" + name] = value;
  }
  processes_.resize(std::size_t(count));
  for (int rank = 0; rank < count; ++rank) {
    int out[2], in[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(in, O_CLOEXEC) != 0) throw Trouble("pipe2");
    environment["RANK"] = std::to_string(rank);
    if (transport == "verbs") environment["ANELLO_VERBS_DEVICES"] = rank % 2 == 0 ? "rxe0,siw0" : "rxe1,siw1";
    Process& process = processes_[std::size_t(rank)];
    process.pid = start({own_path(), "--role", role}, environment, in[0], out[1]);
    process.out = out[0];
    process.in = in[1];
    ::close(out[1]);
    ::close(in[0]);
  }
}

Ranks::~Ranks() {
  for (Process& process : processes_) {
    if (process.pid > 0 && !process.ended) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, &process.status, 0);
    }
    if (process.out >= 0) ::close(process.out);
    if (process.in >= 0) ::close(process.in);
  }
}

Line Ranks::next(int rank, std::int64_t limit_ms) {
  Process& process = processes_[std::size_t(rank)];
  const std::int64_t end = now_ns() + limit_ms * 1'000'000;
  std::size_t newline = 0;
  while ((newline = process.heard.find('\n')) == std::string::npos) {
    const std::int64_t left = (end - now_ns()) / 1'000'000;
    pollfd waiting{process.out, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0) {
      throw Trouble("rank " + std::to_string(rank) + " is silent for " + std::to_string(limit_ms) + " ms");
    }
    char bytes[4096];
    const ssize_t got = ::read(process.out, bytes, sizeof bytes);
    if (got == 0) {
      const int status = wait(rank);
      throw Trouble("rank " + std::to_string(rank) + " ended with status " + std::to_string(status));
    }
    if (got > 0) process.heard.append(bytes, std::size_t(got));
  }
  Line line;
  std::istringstream in(process.heard.substr(0, newline));
  in >> line.time_ns >> std::ws;
  std::getline(in, line.text);
  process.heard.erase(0, newline + 1);
  if (line.begins("WRONG")) throw Trouble("rank " + std::to_string(rank) + ": " + line.text);
  return line;
}

std::int64_t Ranks::unserved_ns(int rank) const {
  std::int64_t all = 0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid(rank)) + "/task", gone)) {
    std::int64_t ran = 0, waited = 0;
    if (std::ifstream(thread.path() / "schedstat") >> ran >> waited) all += waited;
  }
  return all;
}

Line Ranks::expect(int rank, const std::string& with, std::int64_t limit_ms) {
  Line line = next(rank, limit_ms);
  if (!line.begins(with)) {
    throw Trouble("rank " + std::to_string(rank) + " says \"" + line.text + "\" where \"" + with + "\" should be");
  }
  return line;
}

void Ranks::expect_all(const std::string& with) {
  for (int rank = 0; rank < count(); ++rank) expect(rank, with);
}

void Ranks::tell(int rank, const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(processes_[std::size_t(rank)].in, whole.data(), whole.size()) != ssize_t(whole.size())) {
    throw Trouble("rank " + std::to_string(rank) + " does not listen");
  }
}

std::int64_t Ranks::signal(int rank, int number) {
  const std::int64_t time = now_ns();
  if (::kill(pid(rank), number) != 0) throw Trouble("kill: " + std::string(std::strerror(errno)));
  return time;
}

int Ranks::wait(int rank, std::int64_t limit_ms) {
  Process& process = processes_[std::size_t(rank)];
  if (process.ended) return process.status;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  pollfd waiting{descriptor, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(limit_ms));
  ::close(descriptor);
  if (ready <= 0) throw Trouble("rank " + std::to_string(rank) + " does not end");
  ::waitpid(process.pid, &process.status, 0);
  process.ended = true;
  return process.status;
}

void Ranks::finish() {
  expect_all("done");
  for (int rank = 0; rank < count(); ++rank) {
    if (const int status = wait(rank); status != 0) {
      throw Trouble("rank " + std::to_string(rank) + " ended with status " + std::to_string(status));
    }
  }
}

}  // namespace failures
