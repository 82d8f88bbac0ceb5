// anellorun: starts the ranks of a job, on this machine or on several, and stays until the last of them has ended.
#include "anellorun/agent.h"
#include "anellorun/hosts_doctor.h"
#include "anellorun/options.h"
#include "anellorun/process.h"
#include "anellorun/supervisor.h"
#include "shared/complaint.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

namespace {

// If the launcher starts with closed standard streams, it must not use their numbers for a pipe.
void open_standard_streams() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int run_agent() {
  try {
    return anellorun::Agent().run();
  } catch (const std::exception& failure) {
    std::cerr << "anellorun's agent: " << shared::complaint(failure) << '\n';
    return anellorun::kExitCannotStart;
  }
}

std::string hint(const anellorun::CannotStart& failure) {
  const std::string& program = failure.program;
  const bool script = program.size() > 3 && program.compare(program.size() - 3, 3, ".py") == 0;
  if (script && access(program.c_str(), R_OK) == 0)
    return "; is it a script? Then write: anellorun .. python3 " + program;
  return failure.code == ENOENT ? "; is it a path (./prog) or in PATH?" : "";
}

// When --timeout ends the job.
std::optional<anellorun::Clock::time_point> timeout_at(const anellorun::Options& options) {
  using anellorun::Clock;
  if (options.timeout_seconds <= 0) return std::nullopt;
  const std::chrono::duration<double> patience(std::min(options.timeout_seconds, 1e9));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
}

// A job that fails is started anew, as often as the user allows.
int run(anellorun::Options& options) {
  auto ends_at = timeout_at(options);
  const int most = options.shares.front().most_restarts;
  for (int restarts = 0;; ++restarts) {
    if (restarts > 0 && ends_at && anellorun::Clock::now() >= *ends_at)
      throw anellorun::TimedOut(options.timeout_seconds, " before the job was started anew");
    for (anellorun::Share& share : options.shares) share.restarts = restarts;
    if (restarts > 0) std::cerr << options.shares.front().restart() << '\n';
    anellorun::Supervisor supervisor(options, ends_at);
    supervisor.start();
    const int code = supervisor.run();
    if (code == 0 || restarts == most || supervisor.was_cut_short()) return code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace anellorun;
  open_standard_streams();
  if (argc == 2 && std::string_view(argv[1]) == kAgentWord) return run_agent();
  Options options;
  int exit_code = 0;
  if (!parse(argc, argv, options, exit_code)) return exit_code;
  try {
    return options.doctor ? HostsDoctor(options).run() : run(options);
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const TimedOut& late) {
    std::cerr << "anellorun: " << late.what() << '\n';
    return kExitTimeout;
  } catch (const CannotStart& failure) {
    std::cerr << "anellorun: cannot start '" << failure.program << "'"
              << (failure.host.empty() ? "" : " on host " + failure.host) << ": " << strerror(failure.code)
              << hint(failure) << '\n';
    return failure.code == ENOENT ? kExitNotFound : kExitCannotStart;
  } catch (const std::exception& failure) {
    std::cerr << "anellorun: " << shared::complaint(failure) << '\n';
    return kExitCannotStart;
  }
}
