#include "control/process_watch.h"

#include "control/agent.h"

#include <algorithm>
#include <set>

namespace anello::control {
namespace {

// When ranks continue together, one of them may be checked a moment before it continues.
constexpr int kLooks = 2;

}  // namespace

void ProcessWatch::start() {
  const Peer& self = agent_.peer(agent_.rank());
  if (self.process_space == 0) return;
  std::set<std::uint64_t> processes;
  for (const Peer& peer : agent_.peers()) {
    if (peer.process_space != self.process_space || !processes.insert(peer.member.process).second) continue;
    round_.push_back(peer.member.rank);
  }
  const auto own = std::find_if(round_.begin(), round_.end(),
                                [&](int rank) { return agent_.peer(rank).member.process == self.member.process; });
  // One rank of a process checks for all of them.
  if (*own != agent_.rank()) return round_.clear();
  std::rotate(round_.begin(), own, round_.end());
  round_.erase(round_.begin());
}

void ProcessWatch::look() {
  std::map<int, Seen> seen;
  for (const int first : round_) {
    const std::vector<int> ranks = agent_.here_of_process(agent_.peer(first).member.process);
    if (ranks.empty()) continue;
    auto known = seen_.extract(first);
    Seen& its = known ? seen.insert(std::move(known)).position->second
                      : seen.try_emplace(first, Seen{ProcessState(agent_.peer(first).member.pid)}).first->second;
    its.stopped = its.state.stopped() ? its.stopped + 1 : 0;
    const bool called_stopped = agent_.heartbeat().life(ranks.front()) == Life::stopped;
    if (its.stopped >= kLooks && !called_stopped) agent_.heartbeat().found(ranks, Life::stopped);
    if (its.stopped > 0) continue;
    if (called_stopped) agent_.heartbeat().found(ranks, Life::heard);
    break;
  }
  seen_ = std::move(seen);
}

}  // namespace anello::control
