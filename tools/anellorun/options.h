#pragma once
// The parsed command line. The launcher's own options end at the first word that is not one of them: that word is the
// program, and everything after it belongs to the program, even if it looks like an option of the launcher.
#include <string>
#include <utility>
#include <vector>

namespace anellorun {

enum class Binding { none, core };

inline constexpr int kMaxRanks = 4096;

// Exit codes of the launcher itself, besides kExitUsage (shared/command_line.h), as in shells, env(1) and timeout(1).
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitCannotStart = 126;
inline constexpr int kExitNotFound = 127;

struct Options {
  int ranks = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // -x, in the order given
  bool tag_output = false;
  bool keep_going = false;
  double timeout_seconds = 0;  // 0: none
  Binding binding = Binding::none;
  std::vector<std::string> program;  // its name and its arguments; not empty
};

// False if there is nothing to run: it has printed help or a mistake; exit_code says which.
bool parse(int argc, char** argv, Options& options, int& exit_code);

}  // namespace anellorun
