#include "schedule/estimate.h"

#include "schedule/hosts.h"
#include "schedule/shape.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace anello::schedule {
namespace {

// Ranks whose plans are looked at before it is known whether those of all can be made.
constexpr int kSpread = 24;
constexpr std::size_t kStepsToLookAt = 1'000'000;
constexpr std::size_t kFewPeers = 16;
constexpr std::size_t kBlocksAStep = 16;
constexpr std::size_t kMostInStep = 4'000'000;  // of one host's ranks
constexpr int kFewestRanks = 4;
constexpr int kFewestHosts = 2;  // of several ranks

bool is_power_of_two(int number) { return (number & (number - 1)) == 0; }

// Whether all ranks of equal hosts do the same at the same time. In a ring they do not if hosts have several ranks:
// only every few hops of a block lead to another host.
bool keeps_step(const Algorithm& algorithm, const Hosts& hosts, int size) {
  if (is_prefix(algorithm.collective)) return false;
  if (algorithm.name == "doubling" || algorithm.name == "halving") return is_power_of_two(size);
  if (algorithm.name == "ring") return hosts.most() == 1;
  if (algorithm.name == "direct") return is_varying(algorithm.collective) && !has_root(algorithm.collective);
  return algorithm.name == "hierarchical" || (algorithm.name == "pairwise" && !has_root(algorithm.collective));
}

bool are_equal(const Counts& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

// But for at most one in 64 of the ranks, which do less than the others.
bool are_about_equal(const Hosts& hosts, int size) { return hosts.count() * hosts.most() - size <= size / 64; }

// About half of the ranks, rounded down to groups. It is a power of two only if size is one: others need a round more.
int half(int size, int group) {
  const int fewer = (size + group - 1) / group / 2 * group;
  return is_power_of_two(fewer) && !is_power_of_two(size) ? fewer + group : fewer;
}

// The lowest ranks of as many hosts as are needed for them.
Topology reduced(const Topology& topology, const Hosts& hosts, int size) {
  Topology fewer = topology;
  fewer.size = size;
  fewer.known_hosts = fewer.known_processors = nullptr;
  if (!topology.processors_of.empty()) fewer.processors_of.resize(static_cast<std::size_t>(size));
  if (!topology.host_of.empty()) {
    int kept = 0, ranks = 0;
    while (ranks < size) ranks += static_cast<int>(hosts.ranks(kept++).size());
    fewer.host_of.clear();
    for (int rank = 0; static_cast<int>(fewer.host_of.size()) < size; ++rank)
      if (hosts.of(rank) < kept) fewer.host_of.push_back(hosts.of(rank));
  }
  know_hosts(fewer);
  return fewer;
}

class Estimator {
 public:
  Estimator(const Call& call, const Topology& topology, const Algorithm& algorithm, std::size_t chunk, const Cost& cost,
            const Limits& limits, const Counts& counts)
      : call_(call),
        counts_(counts),
        topology_(topology),
        algorithm_(algorithm),
        chunk_(chunk),
        cost_(cost),
        limits_(limits) {
    if (!topology_.known_hosts) know_hosts(topology_);
    call_.root = std::min(call_.root, topology_.size - 1);
  }

  bool fits() const { return algorithm_.fits(call_, topology_); }
  const Hosts& hosts() const { return *topology_.known_hosts; }
  Schedule plan_of(int rank) const { return algorithm_.make(call_of(call_, counts_, rank), topology_, rank, chunk_); }

  // The steps of all ranks, from the plans of some. Those of a rank with many peers count several times, since messages
  // wait in the queues of many ports before they go.
  template <class Look>
  std::size_t steps(Look&& look) const {
    std::vector<int> some;
    const auto choose = [&](int rank) {
      if (std::find(some.begin(), some.end(), rank) == some.end()) some.push_back(rank);
    };
    // One of each kind: the root, the last, and the first host's, of which only some may have peers on others.
    choose(call_.root);
    choose(topology_.size - 1);
    const std::vector<int>& first = hosts().ranks(0);
    const int last = static_cast<int>(first.size()) - 1;
    for (int i = 0; i < kSpread; ++i) choose(first[static_cast<std::size_t>(last * i / (kSpread - 1))]);
    const std::size_t kinds = some.size();
    for (int i = 1; i < kSpread; ++i) choose(static_cast<int>(static_cast<long long>(topology_.size) * i / kSpread));
    std::size_t sum = 0, most = 0, busiest = 0, looked_at = 0;
    for (const int rank : some) {
      if (looked_at >= kinds && sum > kStepsToLookAt) break;
      const Schedule own = plan_of(rank);
      look(rank, own);
      ++looked_at;
      // To make a plan with a block for each rank takes time for empty blocks, too.
      const std::size_t made = algorithm_.cuts_blocks ? static_cast<std::size_t>(topology_.size) / kBlocksAStep : 0;
      const std::size_t steps =
          std::max(made, own.steps.size() * std::max<std::size_t>(1, own.lanes.size() / kFewPeers));
      sum += steps;
      if (steps >= most) busiest = own.steps.size();
      most = std::max(most, steps);
    }
    // The busiest may be the only one of its kind, such as a root.
    const std::size_t of_others = looked_at > 1 ? (sum - most) / (looked_at - 1) : most;
    return of_others * static_cast<std::size_t>(topology_.size) + busiest;
  }

  template <class Look>
  double seconds_of_all(Look&& look) const {
    std::vector<Schedule> plans;
    for (int rank = 0; rank < topology_.size; ++rank) {
      plans.push_back(plan_of(rank));
      look(rank, plans.back());
    }
    return predict(call_, topology_, plans, cost_).seconds;
  }

  // -1: one host's ranks do not stand for all.
  double seconds_in_step() const {
    if (!keeps_step(algorithm_, hosts(), topology_.size) || !are_about_equal(hosts(), topology_.size)) return -1;
    if (!are_equal(counts_)) return -1;
    Estimator full = *this;
    // Empty messages vanish, but those that come after them come no sooner.
    if (!has_parts(call_.collective))
      full.call_.count = std::max(call_.count, static_cast<std::size_t>(topology_.size));
    if (full.plan_of(0).steps.size() * hosts().ranks(0).size() > kMostInStep) return -1;
    return predict_in_step(full.call_, topology_, cost_, [&](int rank) { return full.plan_of(rank); });
  }

  Estimate from_fewer_ranks() const {
    if (!are_equal(counts_)) return {};
    int size = topology_.size;
    // Fewer ranks fill whole hosts, because a host's link takes most of the time. One host alone uses no link.
    const int group = are_about_equal(hosts(), size) && hosts().count() > 1 ? hosts().most() : 1;
    const int fewest = group > 1 ? kFewestHosts * group : kFewestRanks;
    const auto nothing = [](int, const Schedule&) {};
    for (;;) {
      size = half(size, group);
      if (size < 4 * fewest) return {};
      const Estimator fewer = of(size);
      if (fewer.fits() && fewer.steps(nothing) <= limits_.steps_of_fewer) break;
    }
    const double doublings = std::log2(static_cast<double>(topology_.size) / size);
    Estimate found{0, From::fewer_ranks, size};
    double seconds[3];  // of falling numbers of ranks
    for (double& each : seconds) {
      const Estimator fewer = of(size);
      if (!fewer.fits()) return {};
      each = fewer.seconds_of_all(nothing);
      size = half(size, group);
    }
    const double grew = seconds[0] - seconds[1], grew_before = seconds[1] - seconds[2];
    // Of the last doubling, the part that doubles with each, and the part that does not.
    const double doubling = std::clamp(2 * (grew - grew_before), 0.0, std::max(grew, 0.0));
    const double constant = std::max(grew, 0.0) - doubling;
    found.seconds = seconds[0] + doublings * constant + 2 * doubling * (std::exp2(doublings) - 1);
    return found;
  }

 private:
  // Where ranks have blocks of the vector, those stay as long as they are, and so are cut into as many chunks.
  Estimator of(int size) const {
    Call call = call_;
    if (algorithm_.cuts_blocks && !has_parts(call.collective)) {
      call.count = static_cast<std::size_t>(std::ceil(static_cast<double>(call.count) * size / topology_.size));
    }
    Counts counts = counts_;
    if (!counts.empty()) {
      counts.resize(static_cast<std::size_t>(size));
      call.count = known_total(call.collective, counts);
    }
    return {call, reduced(topology_, hosts(), size), algorithm_, chunk_, cost_, limits_, counts};
  }

  Call call_;
  Counts counts_;
  Topology topology_;
  const Algorithm& algorithm_;
  std::size_t chunk_;
  Cost cost_;
  Limits limits_;
};

}  // namespace

Estimate estimate(const Call& call, const Topology& topology, const Algorithm& algorithm, std::size_t chunk,
                  const Cost& cost, const std::function<void(int rank, const Schedule&)>& look, const Limits& limits,
                  const Counts& counts) {
  const Estimator estimator(call, topology, algorithm, chunk, cost, limits, counts);
  if (estimator.steps(look) <= limits.steps) return {estimator.seconds_of_all(look), From::all_ranks, topology.size};
  const double seconds = limits.one_host ? estimator.seconds_in_step() : -1;
  if (seconds >= 0) return {seconds, From::one_host, static_cast<int>(estimator.hosts().ranks(0).size())};
  return estimator.from_fewer_ranks();
}

}  // namespace anello::schedule
