#include "anellorun/discovery.h"

#include "anellorun/process.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include <sstream>
#include <stdexcept>

extern char** environ;

namespace anellorun {
namespace {

using namespace std::chrono_literals;

constexpr auto kEvery = 1s;
constexpr auto kLongest = 60s;
constexpr std::size_t kMostOutput = 1 << 20;

}  // namespace

Discovery::Discovery(std::string script, int slots, const sigset_t& signals, Listed listed, Say say)
    : script_(std::move(script)),
      slots_(slots),
      signals_(signals),
      listed_(std::move(listed)),
      say_(std::move(say)),
      next_at_(Clock::now()) {}

Discovery::~Discovery() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Discovery::begin(Clock::time_point now) {
  Pipe output = make_pipe();
  make_nonblocking(output.from);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &signals_);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output.to.get(), STDOUT_FILENO);
  std::string word = script_;
  char* const words[] = {word.data(), nullptr};
  const int error = posix_spawn(&pid_, script_.c_str(), &files, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  said_.clear();
  status_.reset();
  late_ = false;
  if (error != 0) {
    pid_ = -1;
    wrong_ = strerror(error);
    next_at_ = now + kEvery;
    return;
  }
  output_ = std::move(output.from);
  next_at_ = now + kLongest;
}

void Discovery::take() {
  std::array<char, 4096> buffer;
  ssize_t got;
  while ((got = ::read(output_.get(), buffer.data(), buffer.size())) > 0) {
    if (said_.size() < kMostOutput) said_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  output_.close();
  if (status_) conclude();
}

void Discovery::child_ended() {
  int status;
  if (pid_ < 0 || waitpid(pid_, &status, WNOHANG) != pid_) return;
  pid_ = -1;
  status_ = status;
  if (output_) take();
  if (!status_) return;
  // A process that it has left behind holds the pipe: what has been said until now counts.
  output_.close();
  conclude();
}

void Discovery::conclude() {
  const int status = *status_;
  status_.reset();
  next_at_ = Clock::now() + kEvery;
  std::string wrong;
  std::vector<HostSlots> hosts;
  if (late_) {
    wrong = "had not ended after " + std::to_string(kLongest / 1s) + " s";
  } else if (status != 0) {
    wrong = describe_end(status);
  } else {
    try {
      std::istringstream lines(said_);
      hosts = read_lines(lines, "its output");
    } catch (const std::runtime_error& mistake) {
      wrong = mistake.what();
    }
  }
  if (!wrong.empty() && wrong != wrong_ && has_listed_)
    say_("the host discovery script " + script_ + ": " + wrong + "; the hosts that it named before stay");
  wrong_ = wrong;
  if (!wrong.empty()) return;
  for (HostSlots& host : hosts) {
    if (!host.counted) host.slots = slots_;
  }
  has_listed_ = true;
  listed_(std::move(hosts));
}

void Discovery::keep_deadlines(Clock::time_point now) {
  if (!has_listed_ && !wrong_.empty()) throw std::runtime_error("the host discovery script " + script_ + ": " + wrong_);
  if (now < next_at_) return;
  if (pid_ < 0 && !output_) return begin(now);
  if (pid_ >= 0) {
    late_ = true;
    kill(-pid_, SIGKILL);
  }
  next_at_ = now + kEvery;
}

}  // namespace anellorun
