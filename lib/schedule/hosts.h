#pragma once
// Which ranks are together on a host, as a topology has it.
#include "schedule/schedule.h"

#include <cstddef>
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
  // Of the host that has the most.
  int most() const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;
};

// A rank among those of its host.
class Locals {
 public:
  Locals(const Hosts& hosts, int rank);

  // Beside it.
  int others() const { return static_cast<int>(ranks_.size()) - 1; }
  // The rank d places on, around the host: where all begin with d = 1, they talk to different ones.
  int at(int d) const;

 private:
  const std::vector<int>& ranks_;
  int self_;
};

// Several hosts, one of them at least with several ranks.
bool is_nested(const Topology& topology);
// Or, in place of that, more ranks than processors, bound to some of them each. Ranks that share no memory count as
// hosts of one.
bool takes_turns_bound(const Topology& topology);
// Ranks of a host, or on one host those that share processors. Requires one of the two above.
Hosts together(const Topology& topology);

}  // namespace anello::schedule
