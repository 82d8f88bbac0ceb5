#include "anellorun/options.h"

#include "anellorun/hosts.h"
#include "shared/command_line.h"
#include "shared/manual.h"

#include <anello/anello.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
  anellorun --hosts alpha:2,beta:2 ./prog      two ranks on each of two hosts, started over ssh
  anellorun --hostfile FILE -np 6 ./prog       lines of "alpha slots=4"; the first host is filled first

Hosts: ssh must need no password, and anellorun and the program must be under the same path on every host. Ranks start
in this folder (--wdir names another), with this shell's environment but for what describes this host and user (HOME,
TMPDIR, SSH_* and the like). The secret goes through ssh to an anellorun on each host, which starts the ranks there. An
address and a port of the first host at which all others reach it are found before any rank starts.

Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment;
anello_comm_create(NULL, &comm) needs nothing else. Ranks prove to each other that they belong to the job by a secret
that is handed down through a descriptor: it shows in no command line, environment or file.

Exit code: 0 when every rank returned 0; else that of the rank that failed first (128 + n for signal n);
124 after --timeout, 125 when a host is lost, 126 when the program cannot be started, 127 when it is not found, 2 for a mistake in the options.
When a rank fails it is named, the others have half a second to say what they saw, and then they are ended. With
--keep-going they are not, and the exit code is 0 when any rank returned 0: for programs that go on without a rank.
A rank that ends before it has created a communicator for which others wait is named to these, whose creation fails.
SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on, a second of the first four kills; SIGTSTP and
SIGCONT stop and continue the ranks with the launcher.
When a host or the way to it fails, the job ends within 20 s, and what ran there ends too.

ANELLO_SSH, if set, is used in place of ssh; for example ANELLO_SSH='ssh -p 2222 -i key'. It gets a host and a command.)";

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

std::vector<HostSlots> hosts_of(const CLI::App& app) {
  const auto value = [&app](const char* option) { return app.get_option(option)->as<std::string>(); };
  const bool list = app.count("--hosts") > 0, file = app.count("--hostfile") > 0;
  if (list && file) throw CLI::ValidationError("--hosts", "is given beside --hostfile; give one");
  try {
    if (file) return read_hostfile(value("--hostfile"));
    if (list) return parse_hosts(value("--hosts"));
  } catch (const std::runtime_error& mistake) {
    throw CLI::ValidationError(file ? "--hostfile" : "--hosts", mistake.what());
  }
  return {};
}

// Numbers the ranks host by host. A host that gets none is left out.
std::vector<Share> shares_of(const std::vector<HostSlots>& hosts, int ranks) {
  if (hosts.empty() && ranks == 0) throw CLI::RequiredError("--np");
  bool crowded = false;
  const std::vector<int> counts = hosts.empty() ? std::vector<int>{ranks} : spread(hosts, ranks, crowded);
  if (crowded) std::cerr << "anellorun: the hosts have fewer slots than " << ranks << " ranks; they share processors\n";
  std::vector<Share> shares;
  int first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    Share share;
    if (!hosts.empty()) share.host = hosts[i].name;
    share.first = first;
    share.ranks = counts[i];
    share.node = static_cast<int>(shares.size());
    first += counts[i];
    shares.push_back(std::move(share));
  }
  if (first > kMaxRanks) throw CLI::ValidationError("--hosts", "more than " + std::to_string(kMaxRanks) + " ranks");
  for (Share& share : shares) {
    share.world = first;
    share.nodes = static_cast<int>(shares.size());
  }
  return shares;
}

// Other hosts are told a whole path; ranks of this one inherit the folder.
void settle_folder(Options& options) {
  if (options.folder.empty() && !options.on_agents) return;
  std::array<char, 4096> here{};
  if (!options.folder.empty() && !options.on_agents && chdir(options.folder.c_str()) != 0)
    throw CLI::ValidationError("--wdir", "there is no folder " + shared::in_quotes(options.folder));
  if (getcwd(here.data(), here.size()) == nullptr) throw CLI::ValidationError("--wdir", "this folder has no name");
  if (options.folder.empty()) options.folder = here.data();
  if (options.folder[0] != '/') options.folder = std::string(here.data()) + "/" + options.folder;
}

}  // namespace

bool parse(int argc, char** argv, Options& options, int& exit_code) {
  CLI::App app(
      "anellorun: starts the ranks of a job, on this machine or on several.\n"
      "anellorun -np N [options] program [arguments]\n"
      "anellorun --hosts alpha:2,beta:2 [options] program [arguments]",
      "anellorun");
  app.footer(kExamples);
  shared::add_manual(app);
  std::vector<std::string> exports;
  int ranks = 0;
  Binding binding = Binding::none;
  app.add_option("-n,--np,--nproc-per-node,--nproc_per_node", ranks, "Number of ranks (also written -np)")
      ->check(number_of_ranks())
      ->type_name("N");
  std::string host_list, host_file;
  app.add_option("--hosts,--host,-H", host_list, "Hosts, each with its number of ranks")->type_name("HOST[:N],...");
  app.add_option("--hostfile,--machinefile", host_file, "The same from a file, a host on each line")->type_name("FILE");
  app.add_option("--wdir", options.folder, "Folder in which ranks start")->type_name("FOLDER");
  app.add_option("--agent-path", options.agent_path, "Where anellorun is on the other hosts, if not where it is here")
      ->type_name("PATH");
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
  app.add_option("--bind-to", binding, "none (default), or core: rank i runs on the i-th core of those allowed")
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
  Program program;
  for (std::size_t i = begin + skipped; i < words.size(); ++i) program.words.push_back(argv[i + 1]);
  try {
    app.parse(own);
    for (const std::string& word : exports) program.environment.push_back(variable(word));
    if (program.words.empty()) throw CLI::RequiredError("a program to start");
    options.shares = shares_of(hosts_of(app), ranks);
    for (Share& share : options.shares) {
      program.ranks = share.world;
      share.programs = {program};
      share.binding = binding;
    }
    options.on_agents = !options.shares.front().host.empty();
    settle_folder(options);
  } catch (const CLI::ParseError& error) {
    exit_code = shared::end(app, error);
    return false;
  }
  return true;
}

}  // namespace anellorun
