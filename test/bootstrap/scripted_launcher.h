#pragma once
// The launcher's end of a key space, which answers as a test says.
#include "base/unique_fd.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace anello::bootstrap::test {

// Answers each question with the next of its answers, then closes or stays silent. A question ends with its line, or is
// as long as its first six characters say.
class ScriptedLauncher {
 public:
  enum class End { closes, stays };
  explicit ScriptedLauncher(std::vector<std::string> answers, End end = End::closes);
  ~ScriptedLauncher();
  ScriptedLauncher(const ScriptedLauncher&) = delete;
  ScriptedLauncher& operator=(const ScriptedLauncher&) = delete;

  int descriptor() const { return rank_.get(); }
  // What it was asked. Waits until it has given all answers.
  const std::vector<std::string>& asked();

 private:
  std::string question();

  UniqueFd rank_, launcher_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

// The text of the call's error, which must be ANELLO_ERR_RENDEZVOUS; "" if there is none.
std::string error_of(const std::function<void()>& call);

}  // namespace anello::bootstrap::test
