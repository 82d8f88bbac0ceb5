#pragma once
// Which ranks are together on a host, as a topology has it.
#include "schedule/schedule.h"

#include <cstddef>
#include <vector>

namespace anello::schedule {

class Hosts {
 public:
  explicit Hosts(const Topology& topology);

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

// Several hosts, one of them at least with several ranks.
bool is_nested(const Topology& topology);

}  // namespace anello::schedule
