#pragma once
// Where the launcher's own options end and the program begins.
#include "shared/command_line.h"

#include <string>
#include <vector>

namespace anellorun {

struct CommandLine {
  std::vector<std::string> reversed_options;  // as CLI11 wants them
  std::vector<std::string> program;           // as it was typed: the program may have its own -np
};

// The first word that is no option of app, and no option's value, is the program. "--" before it is left out.
CommandLine split_words(const CLI::App& app, const std::vector<std::string>& words);

// "-np 1 a : -np 2 b": the words of each program. A colon that no -n or -np follows is an argument of the program.
std::vector<std::vector<std::string>> split_programs(const std::vector<std::string>& words);

}  // namespace anellorun
