#pragma once
// Which ranks share a host, according to a topology.
#include "schedule/schedule.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace anello::schedule {

class Hosts {
 public:
  explicit Hosts(const Topology& topology);
  // By rank, numbered from 0; at least one.
  explicit Hosts(std::vector<int> host_of);

  int count() const { return static_cast<int>(ranks_.size()); }
  int of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  // Ascending.
  const std::vector<int>& ranks(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  // The number of ranks of the host that has the most.
  int most() const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;
};

// A rank's index among the ranks of its host.
class Locals {
 public:
  Locals(const Hosts& hosts, int rank);

  // The other ranks of its host.
  int others() const { return static_cast<int>(ranks_.size()) - 1; }
  // The rank d places further around the host: if all ranks begin with d = 1, they talk to different ranks.
  int at(int d) const;

 private:
  const std::vector<int>& ranks_;
  int self_;
};

// Several hosts, at least one of them with several ranks.
bool is_nested(const Topology& topology);
// Or, instead of that, more ranks than processors, with each rank bound to some of them. Ranks that share no memory
// count as hosts with one rank.
bool takes_turns_bound(const Topology& topology);
// Hosts(topology), which is shared by all who ask for the same topology if it is known there.
std::shared_ptr<const Hosts> hosts_of(const Topology& topology);
void know_hosts(Topology& topology);
// The ranks of a host or, on one host, those that share processors. Requires one of the two above.
std::shared_ptr<const Hosts> together(const Topology& topology);

}  // namespace anello::schedule
