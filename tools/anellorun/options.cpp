#include "anellorun/options.h"

#include "anellorun/counts.h"
#include "anellorun/endpoint.h"
#include "anellorun/help.h"
#include "anellorun/hosts_doctor.h"
#include "anellorun/layout.h"
#include "anellorun/words.h"
#include "shared/command_line.h"
#include "shared/manual.h"

#include <anello/anello.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace anellorun {
namespace {

std::pair<std::string, std::string> variable(const std::string& word) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  if (name.empty()) throw CLI::ValidationError("-x", "'" + word + "' names no variable; write NAME or NAME=value");
  if (equals != std::string::npos) return {name, word.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) throw CLI::ValidationError("-x", name + " is not set here; write -x " + name + "=value");
  return {name, value};
}

// "2"; torchrun also takes "1:4", a range in which hosts may come and go.
CLI::Validator number_of_nodes() {
  const CLI::Validator whole = shared::whole(1, kMaxRanks);
  return CLI::Validator(
      [whole](std::string& input) {
    const auto colon = input.find(':');
    if (colon != std::string::npos && input.substr(0, colon) == input.substr(colon + 1)) input.resize(colon);
    if (input.find(':') != std::string::npos)
      return "the number of nodes cannot change while a job runs; write one number in place of " +
             shared::in_quotes(input);
    return whole(input);
      },
      "");
}

void read_endpoint(const std::string& word, Wishes& wishes) {
  if (word.empty()) return;
  const Endpoint endpoint = parse_endpoint(word);
  wishes.master = endpoint.host;
  if (endpoint.port) wishes.port = *endpoint.port;
  wishes.any_port = endpoint.port == 0;
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

// Only with one of the options that begin an elastic job.
void settle_elastic(const CLI::App& app, ElasticWishes elastic, Wishes& wishes, Options& options) {
  const bool wanted = app.count("--min-np") + app.count("--max-np") + app.count("--host-discovery-script") > 0;
  for (const char* needs : {"--slots", "--reset-limit", "--elastic-timeout"}) {
    if (!wanted && app.count(needs) > 0) throw Mistake(needs, "needs --min-np, --max-np or --host-discovery-script");
  }
  if (!wanted) return;
  for (const char* fixed :
       {"--nnodes", "--nproc-per-node", "--bind-to", "--max-restarts", "--doctor", "--master-addr"}) {
    if (app.count(fixed) > 0) throw Mistake(fixed, "is not for jobs whose ranks come and go");
  }
  if (wishes.programs.size() > 1) throw Mistake("--min-np", "takes one program");
  if (wishes.ranks == 0 && elastic.least == 0) throw Mistake("-np", "is needed: how many ranks begin");
  elastic.first = wishes.ranks == 0 ? elastic.least : wishes.ranks;
  if (elastic.least == 0) elastic.least = elastic.first;
  if (elastic.most == 0) elastic.most = std::max(elastic.first, elastic.least);
  if (elastic.least > elastic.first || elastic.first > elastic.most)
    throw Mistake("-np", "is from --min-np to --max-np");
  if (!elastic.script.empty()) {
    if (!wishes.hosts.empty()) throw Mistake("--host-discovery-script", "is given beside hosts; give one");
    elastic.script = std::filesystem::absolute(elastic.script);
    if (access(elastic.script.c_str(), X_OK) != 0)
      throw Mistake("--host-discovery-script", shared::in_quotes(elastic.script) + " is no program that can be run");
  } else if (wishes.hosts.empty()) {
    elastic.hosts = {{"localhost", elastic.most, true}};
  } else {
    elastic.hosts = std::move(wishes.hosts);
    int slots = 0;
    for (const HostSlots& host : elastic.hosts) slots += host.slots;
    if (slots < elastic.first)
      throw Mistake("-np", "is more than the " + std::to_string(slots) + " ranks that the hosts have slots for");
  }
  wishes.hosts.clear();
  wishes.ranks = wishes.programs.front().ranks = elastic.first;
  options.keep_going = true;
  options.elastic = std::move(elastic);
}

// Other hosts are told a whole path; ranks of this one inherit the folder.
void settle_folders(Options& options) {
  std::array<char, 4096> here{};
  if (!options.log_folder.empty()) {
    std::error_code error;
    if (!options.dry_run) std::filesystem::create_directories(options.log_folder, error);
    if (error) throw CLI::ValidationError("--log-dir", shared::in_quotes(options.log_folder) + ": " + error.message());
    options.log_folder = std::filesystem::absolute(options.log_folder);
  }
  if (!options.folder.empty() && !options.on_agents && chdir(options.folder.c_str()) != 0)
    throw CLI::ValidationError("--wdir", "there is no folder " + shared::in_quotes(options.folder));
  if (!options.on_agents) return;
  if (getcwd(here.data(), here.size()) == nullptr) throw CLI::ValidationError("--wdir", "this folder has no name");
  if (options.folder.empty()) options.folder = here.data();
  if (options.folder[0] != '/') options.folder = std::string(here.data()) + "/" + options.folder;
}

// Options of one program; the others are of the job.
void add_program_options(CLI::App& app, int& ranks, std::vector<std::string>& exports, bool& module) {
  app.add_option("-n,--np", ranks, "Number of ranks (also written -np): a number, auto, cpu or gpu")
      ->transform(number_of_ranks())
      ->type_name("N");
  app.add_option("-x", exports, "Sets a variable for all ranks; without a value, passes on this shell's")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->take_all();
  app.add_flag("-m,--module", module, "The program is a Python module: starts python3 -m");
}

std::vector<std::string> program_words(std::vector<std::string> words, bool module) {
  if (module && !words.empty()) words.insert(words.begin(), {"python3", "-m"});
  return words;
}

// The programs after the first, each behind a colon.
Program further_program(const CLI::App& of_job, const std::vector<std::string>& words) {
  CLI::App app("", "anellorun");
  Program program;
  std::vector<std::string> exports;
  bool module = false;
  add_program_options(app, program.ranks, exports, module);
  CommandLine line = split_words(app, words);
  const std::string alien = option_of_job(of_job, app, {line.reversed_options.rbegin(), line.reversed_options.rend()});
  if (!alien.empty()) throw Mistake(alien, "is for the whole job; write it before the first program");
  app.parse(line.reversed_options);
  for (const std::string& word : exports) program.environment.push_back(variable(word));
  program.words = program_words(line.program, module);
  if (program.words.empty()) throw CLI::RequiredError("a program to start after ':'");
  return program;
}

}  // namespace

bool parse(int argc, char** argv, Options& options, int& exit_code) {
  CLI::App app(
      "anellorun: starts the ranks of a job, on this machine or on several.\n"
      "anellorun -np N [options] program [arguments]\n"
      "anellorun --hosts alpha:2,beta:2 [options] program [arguments]",
      "anellorun");
  app.footer(kHelp);
  shared::add_manual(app);
  Wishes wishes;
  std::vector<std::string> exports;
  std::string ignored, endpoint;
  bool module = false, unused = false;
  add_program_options(app, wishes.ranks, exports, module);
  app.add_flag("--tag-output", options.tag_output, "Begins each line of output with its rank");
  app.add_option("--log-dir", options.log_folder,
                 "Writes each rank's output to a file rank-N.log there; a restarted job adds to it")
      ->type_name("FOLDER");
  // torchrun's --tee takes a number; see split_words.
  app.add_flag("--tee", options.tee, "With --log-dir: output goes to the screen too (without it, it does anyway)");
  app.add_flag("--keep-going", options.keep_going, "Leaves the other ranks alone when one fails");
  app.add_option("--max-restarts", wishes.most_restarts, "Starts a job that fails again, so many times")
      ->check(shared::whole(0, kMaxRestarts))
      ->type_name("N");
  app.add_option("--timeout", options.timeout_seconds, "Ends the job after this many seconds")
      ->check(shared::number(0.001, 1e9))
      ->type_name("SECONDS");
  const std::map<std::string, Binding> bindings{
      {"none", Binding::none}, {"core", Binding::core}, {"socket", Binding::socket}, {"numa", Binding::numa}};
  app.add_option("--bind-to", wishes.binding,
                 "Each rank runs on one core, or shares a socket or NUMA node; says which (default: none)")
      ->transform(shared::one_of(bindings))
      ->type_name("none|core|socket|numa");
  app.add_flag("--dry-run", options.dry_run, "Says what would run where, and runs nothing");
  app.set_version_flag("--version", std::string("anellorun " ANELLO_VERSION_STRING));

  const char* const kHosts = "Several hosts, started from here";
  app.add_option("--hosts,--host,-H", ignored, "Hosts, each with its number of ranks; node[01-16] stands for 16")
      ->type_name("HOST[:N],...")
      ->group(kHosts);
  app.add_option("--hostfile,--machinefile", ignored, "The same from a file, a host on each line")
      ->type_name("FILE")
      ->group(kHosts);
  app.add_option("--nproc-per-node", wishes.ranks_of_host, "Number of ranks on each host")
      ->transform(number_of_ranks())
      ->type_name("N")
      ->group(kHosts);
  app.add_option("--wdir", options.folder, "Folder in which ranks start")->type_name("FOLDER")->group(kHosts);
  app.add_option("--agent-path", options.agent_path, "Where anellorun is on the other hosts, if not where it is here")
      ->type_name("PATH")
      ->group(kHosts);
  app.add_flag("--doctor", options.doctor, "Runs no job: looks for what is wrong on each host and between each two")
      ->group(kHosts);
  app.add_flag("--oversubscribe", options.oversubscribe,
               "Says nothing about more ranks than hosts have slots or processors")
      ->group(kHosts);

  const char* const kElastic = "Ranks that come and go, for hvd.elastic.run (docs/horovod.md; horovodrun's names)";
  ElasticWishes elastic;
  int resets = 0;
  app.add_option("--min-np,--min-num-proc", elastic.least,
                 "Fewest ranks that go on when others are lost (default: -np)")
      ->check(shared::whole(1, kMaxRanks))
      ->type_name("N")
      ->group(kElastic);
  app.add_option("--max-np,--max-num-proc", elastic.most, "Most ranks (default: -np)")
      ->check(shared::whole(1, kMaxRanks))
      ->type_name("N")
      ->group(kElastic);
  app.add_option("--host-discovery-script", elastic.script,
                 "A program that prints the hosts of now, one HOST:N on each line; it is asked every second")
      ->type_name("FILE")
      ->group(kElastic);
  app.add_option("--slots,--slots-per-host", elastic.slots,
                 "Ranks on a host for which it prints no number (default: 1)")
      ->check(shared::whole(1, kMaxRanks))
      ->type_name("N")
      ->group(kElastic);
  app.add_option("--reset-limit", resets, "How often the ranks may meet anew (default: no limit)")
      ->check(shared::whole(0, 1'000'000))
      ->type_name("N")
      ->group(kElastic);
  app.add_option("--elastic-timeout", elastic.patience_seconds,
                 "Ends the job when there have been too few ranks for so long (default: 600)")
      ->check(shared::number(0.001, 1e9))
      ->type_name("SECONDS")
      ->group(kElastic);

  const char* const kNodes = "Several hosts, each with its own anellorun (torchrun's names)";
  app.add_option("--nnodes", wishes.nodes, "Number of hosts")
      ->transform(number_of_nodes())
      ->type_name("N")
      ->group(kNodes);
  app.add_option("--node-rank", wishes.node, "This host's number, from 0")
      ->check(shared::whole(0, kMaxRanks))
      ->type_name("R")
      ->group(kNodes);
  app.add_option("--master-addr", wishes.master, "Address of host 0")->type_name("HOST")->group(kNodes);
  app.add_option("--master-port", wishes.port, "Port there (default: 29500)")
      ->check(shared::whole(1, 65534))
      ->type_name("PORT")
      ->group(kNodes);
  app.add_option("--rdzv-endpoint", endpoint,
                 "The two in one; an IPv6 address before a port stands in brackets; port 0: any")
      ->type_name("HOST[:PORT]")
      ->group(kNodes);
  app.add_option("--rdzv-id", options.job_name, "Name of the job")->type_name("ID")->group(kNodes);
  app.add_option("--rdzv-backend", ignored, "Accepted; changes nothing")->type_name("NAME")->group(kNodes);
  app.add_flag("--standalone", wishes.standalone, "One host, which is the default")->group(kNodes);
  app.add_flag("--no-python", unused, "Accepted; programs are started as they are")->group(kNodes);

  std::vector<std::vector<std::string>> programs = split_programs(app, {argv + 1, argv + argc});
  try {
    CommandLine line = split_words(app, programs.front());
    app.parse(line.reversed_options);
    Program first;
    first.ranks = wishes.ranks;
    first.words = program_words(line.program, module);
    for (const std::string& word : exports) first.environment.push_back(variable(word));
    if (options.doctor) {
      if (!first.words.empty() || programs.size() > 1) {
        const std::string extra = first.words.empty() ? ": " + programs[1].front() : line.program.front();
        throw CLI::ValidationError("--doctor", "runs no program; leave out " + shared::in_quotes(extra));
      }
      if (app.count("--hosts") + app.count("--hostfile") == 0)
        throw CLI::ValidationError("--doctor", "needs --hosts or --hostfile; anello-info --doctor examines this host");
      first.words = {doctor_program(options.agent_path), "--doctor"};
      wishes.ranks_of_host = 1;
      wishes.ranks = first.ranks = 0;
    }
    if (first.words.empty()) throw CLI::RequiredError("a program to start");
    wishes.programs.push_back(std::move(first));
    for (std::size_t i = 1; i < programs.size(); ++i) wishes.programs.push_back(further_program(app, programs[i]));
    wishes.hosts = hosts_of(app);
    if (options.doctor && wishes.hosts.size() > kMostExamined) {
      throw CLI::ValidationError(
          "--doctor", "examines at most " + std::to_string(kMostExamined) + " hosts at a time; name some of them");
    }
    wishes.master = without_brackets(wishes.master);
    try {
      read_endpoint(endpoint, wishes);
    } catch (const std::runtime_error& mistake) {
      throw CLI::ValidationError("--rdzv-endpoint", mistake.what());
    }
    settle_counts(wishes);
    if (app.count("--reset-limit") > 0) elastic.resets = resets;
    settle_elastic(app, std::move(elastic), wishes, options);
    const std::string note = lay_out(wishes, options);
    options.on_agents = options.on_agents || options.elastic;
    if (!note.empty()) std::cerr << "anellorun: " << note << '\n';
    settle_folders(options);
  } catch (const Mistake& mistake) {
    exit_code = shared::end(app, CLI::ValidationError(mistake.option, mistake.what()));
    return false;
  } catch (const CLI::ParseError& error) {
    exit_code = shared::end(app, error);
    return false;
  }
  if (!options.dry_run) return true;
  std::cout << describe(options);
  exit_code = 0;
  return false;
}

}  // namespace anellorun
