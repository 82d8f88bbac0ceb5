#include "anellorun/layout.h"

#include "anellorun/placement.h"
#include "anellorun/threads.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace anellorun {
namespace {

constexpr int kDefaultPort = 29500;  // torchrun's

// How many ranks each host gets.
std::vector<int> counts_of(const Wishes& wishes, int ranks, bool& crowded) {
  if (wishes.ranks_of_host > 0)
    return std::vector<int>(std::max<std::size_t>(1, wishes.hosts.size()), wishes.ranks_of_host);
  if (wishes.hosts.empty()) return {ranks};
  return spread(wishes.hosts, ranks, crowded);
}

// The number of ranks that the user has written, in one way or another; 0: none.
int ranks_of(const Wishes& wishes) {
  if (wishes.ranks > 0 && wishes.ranks_of_host > 0)
    throw Mistake("--nproc-per-node", "is given beside -np; give one of them");
  if (wishes.programs.size() == 1) return wishes.ranks;
  int sum = 0;
  for (const Program& program : wishes.programs) {
    if (program.ranks == 0) throw Mistake("-np", "is needed for each program between the colons");
    sum += program.ranks;
  }
  return sum;
}

void check_nodes(const Wishes& wishes) {
  const bool several = wishes.nodes > 1 || wishes.hosts.size() > 1;
  if (wishes.standalone && several)
    throw Mistake("--standalone", std::string("means one host, but ") + (wishes.nodes > 1 ? "--nnodes" : "--hosts") +
                                      " says more; leave one of the two out");
  if (wishes.any_port && several)
    throw Mistake("--rdzv-endpoint", "port 0 means any free one, which other hosts would not know; write a port");
  if (wishes.node < 0 || wishes.node >= wishes.nodes)
    throw Mistake("--node-rank", "counts from 0 to the number of nodes less 1; --nnodes says how many there are");
  if (wishes.nodes == 1) return;
  if (!wishes.hosts.empty())
    throw Mistake("--nnodes", "is for hosts that each have their own anellorun; --hosts starts all");
  if (wishes.ranks_of_host == 0) throw Mistake("--nnodes", "needs --nproc-per-node");
  if (wishes.programs.size() > 1) throw Mistake("--nnodes", "takes one program; --hosts takes several");
  if (wishes.most_restarts > 0)
    throw Mistake("--max-restarts", "needs one anellorun that starts all ranks, with --hosts; --nnodes has several");
  if (wishes.master.empty()) throw Mistake("--nnodes", "needs --master-addr, an address of node 0");
  if (std::getenv("ANELLO_SECRET_FILE") == nullptr) {
    throw Mistake("--nnodes",
                  "needs a secret that the nodes share. Make one, (umask 077; head -c 32 /dev/urandom > job.secret), "
                  "copy it to all nodes, and set ANELLO_SECRET_FILE to its path; or start all of them from here "
                  "with --hosts");
  }
}

const char* origin(const Threads& threads) {
  switch (threads.from) {
    case Threads::From::share: return "";
    case Threads::From::shell: return " (from this shell)";
    case Threads::From::option: return " (from -x)";
  }
  return "";
}

}  // namespace

std::string lay_out(const Wishes& wishes, Options& options) {
  check_nodes(wishes);
  const int ranks = ranks_of(wishes);
  if (ranks == 0 && wishes.ranks_of_host == 0 && wishes.hosts.empty())
    throw Mistake("", "-np N is required: the number of ranks");
  bool crowded = false;
  const std::vector<int> counts = counts_of(wishes, ranks, crowded);
  const int here = std::accumulate(counts.begin(), counts.end(), 0);
  const int world = here * wishes.nodes;
  if (world > kMaxRanks)
    throw Mistake("-np", std::to_string(world) + " ranks are more than " + std::to_string(kMaxRanks));
  if (wishes.programs.size() > 1 && ranks != here)
    throw Mistake("-np", "the programs have " + std::to_string(ranks) + " ranks, the hosts " + std::to_string(here));
  int first = here * wishes.node;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;  // the user wants fewer ranks than the hosts before it take
    Share share;
    if (!wishes.hosts.empty()) share.host = wishes.hosts[i].name;
    share.world = world;
    share.first = first;
    share.ranks = counts[i];
    share.node = wishes.node + static_cast<int>(options.shares.size());
    share.binding = wishes.binding;
    share.most_restarts = wishes.most_restarts;
    share.programs = wishes.programs;
    if (share.programs.size() == 1) share.programs.front().ranks = world;
    first += counts[i];
    options.shares.push_back(std::move(share));
  }
  for (Share& share : options.shares) share.nodes = std::max(wishes.nodes, static_cast<int>(options.shares.size()));
  options.on_agents = !wishes.hosts.empty();
  options.others_start_too = wishes.nodes > 1;
  // Others do not reach the loopback of the first of several hosts.
  if (options.shares.size() > 1 && wishes.master.empty()) {
    options.port = wishes.port;
  } else if (!wishes.any_port && (options.others_start_too || !wishes.master.empty() || wishes.port != 0)) {
    options.place = MeetingPlace{wishes.master.empty() ? "127.0.0.1" : wishes.master,
                                 wishes.port == 0 ? kDefaultPort : wishes.port};
  }
  if (!crowded || options.oversubscribe) return "";
  return "the hosts have slots for fewer than " + std::to_string(ranks) +
         " ranks, so some share processors (--oversubscribe "
         "says that this is meant)";
}

std::string describe(const Options& options) {
  std::string text;
  const auto line = [&text](const std::string& words) { text += words + "\n"; };
  if (options.elastic) {
    const ElasticWishes& wishes = *options.elastic;
    line("from " + std::to_string(wishes.least) + " to " + std::to_string(wishes.most) + " ranks; " +
         std::to_string(wishes.first) + " begin");
    if (!wishes.script.empty()) line("hosts: as " + wishes.script + " prints them");
    for (const HostSlots& host : wishes.hosts)
      line("host " + host.name + ": up to " + std::to_string(host.slots) + " ranks");
    std::string words = "each rank:";
    for (const std::string& word : options.shares.front().programs.front().words) words += " " + word;
    line(words);
    return text;
  }
  for (const Share& share : options.shares) {
    const bool agent = options.on_agents && !is_this_host(share.host);
    line((share.host.empty() ? std::string("this host") : "host " + share.host) + ": ranks " +
         std::to_string(share.first) + " to " + std::to_string(share.first + share.ranks - 1) + " of " +
         std::to_string(share.world));
    if (agent) {
      const char* shell = std::getenv("ANELLO_SSH");
      std::string words;
      for (const std::string& word : agent_command(share.host, shell != nullptr ? shell : "", options.agent_path))
        words += (words.empty() ? "" : " ") + word;
      line("  started by: " + words);
    }
    const auto cpus = agent ? std::vector<cpu_set_t>() : placement(share);
    const int processors = usable_processors();
    const auto threads = agent ? std::vector<Threads>() : threads_of_ranks(share, cpus, processors);
    const bool alike = !agent && std::count(threads.begin(), threads.end(), threads.front()) == share.ranks;
    if (!agent) {
      line("  processors: " + std::to_string(processors) +
           (alike ? "; OMP_NUM_THREADS=" + threads.front().value + " for each rank" + origin(threads.front()) : ""));
    }
    for (int rank = share.first; rank < share.first + share.ranks; ++rank) {
      std::string words = "  rank " + std::to_string(rank) + ": ";
      for (const std::string& word : share.program_of(rank).words) words += word + " ";
      words.pop_back();
      if (!cpus.empty()) words += "   on processors " + describe(cpus[static_cast<std::size_t>(rank - share.first)]);
      if (!agent && !alike) {
        const Threads& own = threads[static_cast<std::size_t>(rank - share.first)];
        words += "   OMP_NUM_THREADS=" + own.value + origin(own);
      }
      line(words);
    }
  }
  const std::string at = options.port == 0 ? "" : ", at port " + std::to_string(options.port);
  line("meeting place: " + (options.place ? written(*options.place) : "found when the job starts" + at));
  return text;
}

}  // namespace anellorun
