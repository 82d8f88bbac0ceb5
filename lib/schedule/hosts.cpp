#include "schedule/hosts.h"

#include "schedule/split.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace anello::schedule {
namespace {

std::vector<int> numbered(const Topology& topology) {
  std::vector<int> host_of = topology.host_of;
  host_of.resize(static_cast<std::size_t>(topology.size), 0);
  // If no hosts are known, all ranks count as one host if they meet in memory, and otherwise each rank counts as its
  // own host.
  if (topology.host_of.empty() && topology.network) std::iota(host_of.begin(), host_of.end(), 0);
  return host_of;
}

}  // namespace

Hosts::Hosts(const Topology& topology) : Hosts(numbered(topology)) {}

Hosts::Hosts(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  ranks_.resize(static_cast<std::size_t>(*std::max_element(host_of_.begin(), host_of_.end())) + 1);
  const auto size = static_cast<int>(host_of_.size());
  for (int rank = 0; rank < size; ++rank) ranks_[static_cast<std::size_t>(of(rank))].push_back(rank);
}

int Hosts::most() const {
  std::size_t most = 0;
  for (const std::vector<int>& ranks : ranks_) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

Locals::Locals(const Hosts& hosts, int rank)
    : ranks_(hosts.ranks(hosts.of(rank))),
      self_(static_cast<int>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin())) {}

int Locals::at(int d) const { return ranks_[static_cast<std::size_t>(wrap(self_ + d, others() + 1))]; }

bool is_nested(const Topology& topology) {
  const auto last = std::max_element(topology.host_of.begin(), topology.host_of.end());
  return last != topology.host_of.end() && *last > 0 && *last + 1 < topology.size;
}

bool takes_turns_bound(const Topology& topology) {
  return topology.oversubscribed && !topology.processors_of.empty() && !is_nested(topology);
}

std::shared_ptr<const Hosts> hosts_of(const Topology& topology) {
  return topology.known_hosts != nullptr ? topology.known_hosts : std::make_shared<const Hosts>(topology);
}

void know_hosts(Topology& topology) {
  topology.known_hosts = std::make_shared<const Hosts>(topology);
  if (!topology.processors_of.empty())
    topology.known_processors = std::make_shared<const Hosts>(topology.processors_of);
}

std::shared_ptr<const Hosts> together(const Topology& topology) {
  if (is_nested(topology)) return hosts_of(topology);
  return topology.known_processors ? topology.known_processors : std::make_shared<const Hosts>(topology.processors_of);
}

bool Topology::operator==(const Topology& other) const {
  const auto of = [](const Topology& each) {
    return std::tie(each.size, each.board, each.board_bytes, each.staging_bytes, each.network, each.oversubscribed,
                    each.host_of, each.processors_of);
  };
  return of(*this) == of(other);
}

}  // namespace anello::schedule
