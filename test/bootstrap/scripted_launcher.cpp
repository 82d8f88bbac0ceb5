#include "bootstrap/scripted_launcher.h"

#include "base/error.h"
#include "support/catch.h"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace anello::bootstrap::test {

ScriptedLauncher::ScriptedLauncher(std::vector<std::string> answers, End end) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
  rank_ = UniqueFd(ends[0]);
  launcher_ = UniqueFd(ends[1]);
  thread_ = std::thread([this, end, answers = std::move(answers)] {
    for (const std::string& answer : answers) {
      asked_.push_back(question());
      // One byte at a time, as a slow network would bring them.
      for (const char byte : answer) (void)!::send(launcher_.get(), &byte, 1, MSG_NOSIGNAL);
    }
    if (end == End::closes) launcher_.reset();
  });
}

ScriptedLauncher::~ScriptedLauncher() {
  rank_.reset();  // the thread may be writing to it
  if (thread_.joinable()) thread_.join();
}

std::string ScriptedLauncher::question() {
  std::string all;
  std::size_t end = 6;
  for (char byte = 0; all.size() < end && byte != '\n' && ::read(launcher_.get(), &byte, 1) == 1;) {
    all += byte;
    if (all.size() == 6) end = all[0] == ' ' ? 6 + std::size_t(std::atoi(all.c_str())) : SIZE_MAX;
  }
  return all;
}

const std::vector<std::string>& ScriptedLauncher::asked() {
  if (thread_.joinable()) thread_.join();
  return asked_;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ANELLO_ERR_RENDEZVOUS);
    return error.text();
  }
  return {};
}

}  // namespace anello::bootstrap::test
