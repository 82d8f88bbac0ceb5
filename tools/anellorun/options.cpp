#include "anellorun/options.h"

#include "shared/command_line.h"
#include "shared/manual.h"

#include <anello/anello.h>

#include <sched.h>

#include <algorithm>
#include <cstdlib>
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
When a rank fails it is named, the others have half a second to say what they saw, and then they are ended. With
--keep-going they are not, and the exit code is 0 when any rank returned 0: for programs that go on without a rank.
A rank that ends before it has created a communicator for which others wait is named to these, whose creation fails.
SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on, a second of the first four kills; SIGTSTP and
SIGCONT stop and continue the ranks with the launcher.)";

// Names that mpirun and mpiexec write with one dash, but that other parsers read as several options of one letter: -np
// is "-n p".
std::string canonical(const std::string& word) {
  static const std::set<std::string> names{"-np", "-hosts", "-host", "-hostfile", "-machinefile"};
  return names.count(word.substr(0, word.find('='))) != 0 ? "-" + word : word;
}

// Whether the word after this one is the option's value.
bool takes_next(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_expected_min() > 0;  // -n4 is not an option's name: it contains its value
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

// Options of other launchers for functions that this one does not have yet: each is answered with a way to do it today.
constexpr const char* kOtherHosts =
    "anellorun starts ranks on this machine alone. For several, let your own launcher start the program (srun, mpirun, "
    "torchrun), or start each rank yourself with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and give all of them "
    "the "
    "same ANELLO_SECRET_FILE; README.md, \"Start your own program\", has the commands";
constexpr const char* kOfOtherHosts = "--hosts,--host,-H,--hostfile,--machinefile,--nnodes,--node-rank,--node_rank";

CLI::Validator refused(const std::string& why) {
  return CLI::Validator([why](std::string&) { return why; }, "");
}

CLI::Validator number_of_ranks() {
  const CLI::Validator whole = shared::whole(1, kMaxRanks);
  return CLI::Validator(
      [whole](std::string& input) {
    if (input != "auto" && input != "cpu" && input != "gpu") return whole(input);
    cpu_set_t allowed;
    const int processors = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    const std::string count = std::to_string(processors);
    return shared::in_quotes(input) + " is not known yet; write a number: -np " + count + " gives each " +
           (processors == 1 ? "processor" : "of the " + count + " processors") + " here a rank";
      },
      "");
}

}  // namespace

bool parse(int argc, char** argv, Options& options, int& exit_code) {
  CLI::App app(
      "anellorun: starts the ranks of a job on this machine.\n"
      "anellorun -np N [options] program [arguments]",
      "anellorun");
  app.footer(kExamples);
  shared::add_manual(app);
  std::vector<std::string> exports;
  app.add_option("-n,--np,--nproc-per-node,--nproc_per_node", options.ranks, "Number of ranks (also written -np)")
      ->check(number_of_ranks())
      ->type_name("N")
      ->required();
  app.add_option("-x", exports, "Sets a variable for all ranks; without a value, passes on this shell's")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->take_all();
  app.add_flag("--tag-output", options.tag_output, "Begins each line of output with its rank");
  app.add_flag("--keep-going", options.keep_going, "Leaves the other ranks alone when one fails");
  app.add_option("--timeout", options.timeout_seconds, "Ends the job after this many seconds")
      ->check(shared::number(0.001, 1e9))
      ->type_name("SECONDS");
  const std::map<std::string, Binding> bindings{{"none", Binding::none}, {"core", Binding::core}};
  std::string other;
  app.add_option(kOfOtherHosts, other)->check(refused(kOtherHosts))->group("");
  app.add_option("--bind-to", options.binding, "none (default), or core: rank i runs on the i-th core of those allowed")
      ->transform(shared::one_of(bindings))
      ->type_name("none|core");
  app.set_version_flag("--version", std::string("anellorun " ANELLO_VERSION_STRING));

  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.push_back(words.empty() || words.back() != "--" ? canonical(argv[i]) : argv[i]);
  const std::size_t begin = program_begin(app, words);
  // CLI11 wants them reversed.
  std::vector<std::string> own(words.rend() - static_cast<std::ptrdiff_t>(begin), words.rend());
  const std::size_t skipped = begin < words.size() && words[begin] == "--" ? 1 : 0;
  // As they were typed: the program may have its own -np.
  for (std::size_t i = begin + skipped; i < words.size(); ++i) options.program.push_back(argv[i + 1]);
  try {
    app.parse(own);
    for (const std::string& word : exports) options.environment.push_back(variable(word));
    if (options.program.empty()) throw CLI::RequiredError("a program to start");
  } catch (const CLI::ParseError& error) {
    exit_code = shared::end(app, error);
    return false;
  }
  return true;
}

}  // namespace anellorun
