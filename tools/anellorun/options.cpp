#include "anellorun/options.h"

#include <anello/anello.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

namespace anellorun {
namespace {

constexpr const char* kExamples = R"(Examples:
  anellorun -np 4 ./prog --its-own-option      four ranks of ./prog on this machine
  anellorun -np 2 --tag-output hostname        every line says which rank wrote it: "[1] alpha"
  anellorun -np 4 -x ANELLO_TRANSPORT=tcp ./prog        with a variable for all ranks
  anellorun -np 4 --timeout 60 ./prog          ends the job after a minute, with exit code 124
  anellorun -np 2 --bind-to core ./prog        a core of its own for each rank
  anellorun -np 2 sh -c 'echo rank $RANK of $WORLD_SIZE'
  anellorun -np 8 python3 train.py < data      standard input goes to rank 0

Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment;
anello_comm_create(NULL, &comm) needs nothing else. Ranks prove to each other that they belong to the job by a secret
that is handed down through a descriptor: it shows in no command line, environment or file.

Exit code: 0 when every rank returned 0; else that of the rank that failed first (128 + n for signal n);
124 after --timeout, 126 when the program cannot be started, 127 when it is not found, 2 for a mistake in the options.
When a rank fails it is named, the others have half a second to say what they saw, and then they are ended.
SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on, a second of the first four kills; SIGTSTP and
SIGCONT stop and continue the ranks with the launcher.)";

// mpirun's -np is one word there, but "-n p" to everybody else.
std::string canonical(const std::string& word) {
  return word == "-np" || word.rfind("-np=", 0) == 0 ? "-" + word : word;
}

// Whether the word after this one is the option's value.
bool takes_next(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_expected_min() > 0;  // -n4 is no option's name: its value is inside
}

std::size_t program_begin(const CLI::App& app, const std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size()) {
    if (words[i] == "--") break;
    if (words[i].size() < 2 || words[i][0] != '-') break;
    i += takes_next(app, words[i]) ? 2 : 1;
  }
  return std::min(i, words.size());
}

std::pair<std::string, std::string> variable(const std::string& word) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  if (name.empty()) throw CLI::ValidationError("-x", "'" + word + "' names no variable; write NAME or NAME=value");
  if (equals != std::string::npos) return {name, word.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) throw CLI::ValidationError("-x", name + " is not set here; write -x " + name + "=value");
  return {name, value};
}

}  // namespace

bool parse(int argc, char** argv, Options& options, int& exit_code) {
  CLI::App app("anellorun: starts the ranks of a job on this machine.\n"
               "anellorun -np N [options] program [arguments]", "anellorun");
  app.footer(kExamples);
  std::vector<std::string> exports;
  app.add_option("-n,--np,--nproc-per-node,--nproc_per_node", options.ranks, "Number of ranks (also written -np)")
      ->check(CLI::Range(1, kMaxRanks))->type_name("N")->required();
  app.add_option("-x", exports, "Sets a variable for all ranks; without a value, passes on this shell's")
      ->type_name("NAME[=VALUE]")->expected(1)->take_all();
  app.add_flag("--tag-output", options.tag_output, "Begins each line of output with its rank");
  app.add_option("--timeout", options.timeout_seconds, "Ends the job after so many seconds")
      ->check(CLI::PositiveNumber)->type_name("SECONDS");
  const std::map<std::string, Binding> bindings{{"none", Binding::none}, {"core", Binding::core}};
  app.add_option("--bind-to", options.binding, "none (default), or core: rank i runs on the i-th core of those allowed")
      ->transform(CLI::CheckedTransformer(bindings).description("core|none"))->type_name("");
  app.set_version_flag("--version", std::string("anellorun " ANELLO_VERSION_STRING));

  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.push_back(words.empty() || words.back() != "--" ? canonical(argv[i]) : argv[i]);
  const std::size_t begin = program_begin(app, words);
  // CLI11 wants them reversed.
  std::vector<std::string> own(words.rend() - static_cast<std::ptrdiff_t>(begin), words.rend());
  const std::size_t skipped = begin < words.size() && words[begin] == "--" ? 1 : 0;
  // As they were typed: the program may have a -np of its own.
  for (std::size_t i = begin + skipped; i < words.size(); ++i) options.program.push_back(argv[i + 1]);
  try {
    app.parse(own);
    for (const std::string& word : exports) options.environment.push_back(variable(word));
    if (options.program.empty()) throw CLI::RequiredError("anellorun -np N program: the program");
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error, std::cout, std::cerr) == 0 ? 0 : kExitUsage;
    return false;
  }
  return true;
}

}  // namespace anellorun
