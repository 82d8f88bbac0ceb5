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

// "-np 1 a : -np 2 b": the words of each program. A colon that no option of app follows is an argument of the program.
std::vector<std::vector<std::string>> split_programs(const CLI::App& app, const std::vector<std::string>& words);

// The first of the options that is the job's and not a program's; "": there is none.
std::string option_of_job(const CLI::App& of_job, const CLI::App& of_program, const std::vector<std::string>& options);

}  // namespace anellorun
