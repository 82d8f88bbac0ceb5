#pragma once
// The hosts of a job: how a person writes them, which ranks each gets, and how its agent is started.
#include "anellorun/share.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace anellorun {

struct HostSlots {
  std::string name;  // as ssh takes it: host or user@host
  int slots = 1;
  bool counted = false;  // the user wrote the number
};

// "alpha:2,user@beta:4,node[01-16]:8,[fe80::1]:2", of at most kMaxRanks hosts. Throws std::runtime_error, which names
// the mistake.
std::vector<HostSlots> parse_hosts(const std::string& list);
// Lines of "alpha slots=2", "node[01-16]:8" or "alpha"; # begins a comment. of: where they are from, for people. No
// lines: no hosts. Throws std::runtime_error.
std::vector<HostSlots> read_lines(std::istream& lines, const std::string& of);
std::vector<HostSlots> read_hostfile(const std::string& path);

// How many ranks each host gets; it fills the first host first. ranks: 0 if the user did not say. Sets crowded if hosts
// get more ranks than they have slots.
std::vector<int> spread(const std::vector<HostSlots>& hosts, int ranks, bool& crowded);

// Where this program is. Throws std::runtime_error.
std::string own_path();

// Whether no remote shell is needed for it.
bool is_this_host(const std::string& name);

// The words that start an agent on the host. remote_shell: ANELLO_SSH, or empty; agent_path: this program there, or
// empty for the path that it has here. Throws std::runtime_error.
std::vector<std::string> agent_command(const std::string& host, const std::string& remote_shell,
                                       const std::string& agent_path);

}  // namespace anellorun
