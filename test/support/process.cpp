#include "support/process.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <signal.h>
#include <unistd.h>

extern char** environ;

namespace anello::test {

std::string own_path() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, length > 0 ? std::size_t(length) : 0);
}

pid_t start(const std::vector<std::string>& command, const Settings& environment, int in_fd, int out_fd) {
  // All memory before the fork: this process may have threads.
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    if (environment.count(variable.substr(0, variable.find('='))) == 0) variables.push_back(variable);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> arguments, variable_pointers;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  for (const std::string& each : variables) variable_pointers.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  variable_pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
  if (pid == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    if (in_fd >= 0) ::dup2(in_fd, STDIN_FILENO);
    if (out_fd >= 0) ::dup2(out_fd, STDOUT_FILENO);
    ::execve(arguments[0], arguments.data(), variable_pointers.data());
    ::_exit(127);
  }
  return pid;
}

}  // namespace anello::test
