#include "anellorun/pair_findings.h"

#include "base/network_interfaces.h"

#include <string.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace anellorun {
namespace {

using shared::Finding;
using shared::Verdict;

constexpr std::int64_t kClocksDifferUs = 100'000;
// The kernel asks for a neighbour three times, a second each. What a firewall says comes at once, or after a second if
// it limits how often it says so.
constexpr std::uint32_t kNeighbourIsSilentUs = 2'500'000;

std::string milliseconds(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof text, microseconds < 10'000 ? "%.1f ms" : "%.0f ms", microseconds / 1000);
  return text;
}

std::string duration(std::int64_t microseconds) {
  if (microseconds < 10'000'000) return milliseconds(double(microseconds));
  return std::to_string(microseconds / 1'000'000) + " s";
}

// What became of a connection: the errors differ in who refused it.
struct Cause {
  std::string what;     // after "10.1.2.3:4711 "
  std::string meaning;  // a sentence
  std::string remedy;
};

bool is_ipv6(const MeetingPlace& place) { return place.address.find(':') != std::string::npos; }

// Other hosts have a loopback of their own.
bool is_for_others(const MeetingPlace& place) { return !anello::is_loopback(place.address); }

// address_of_from: of the place's kind, or "".
Cause cause_of(const Reach& reach, const std::string& from, const std::string& to, const MeetingPlace& place,
               const std::string& address_of_from) {
  const std::string took = milliseconds(reach.microseconds);
  const std::string on_from = "on " + from + ": ", on_to = "on " + to + ": ";
  const std::string tables = is_ipv6(place) ? "ip6tables" : "iptables", ip = is_ipv6(place) ? "ip -6" : "ip";
  const std::string let_in =
      on_to + "sudo " + tables + " -I INPUT -p tcp " +
      (address_of_from.empty()
           ? "--dport 30000:30100 -j ACCEPT        on all hosts, and export "
           : "-s " + address_of_from + " -j ACCEPT        or let some ports through on all hosts, and export ") +
      "ANELLO_PORT_RANGE=30000-30100";
  switch (reach.error) {
    case ETIMEDOUT:
      return {"did not answer within " + took, "A firewall drops what " + from + " sends, or the way back is another.",
              let_in};
    case ECONNREFUSED:
      return {
          "was refused after " + took + ", though it listens there",
          "A firewall on " + to + " or on the way refuses (a rule that rejects), or another machine has this address.",
          let_in};
    case ECONNRESET:
    case EPIPE:
      return {"was reset after " + took + ", though it listens there",
              "Something on the way ends connections: a firewall or a proxy.", let_in};
    case EHOSTUNREACH:
      return reach.microseconds < kNeighbourIsSilentUs
                 ? Cause{"is not to be reached, says a router or firewall after " + took,
                         "A firewall on " + to + " or on the way rejects what " + from +
                             " sends, or a route forbids it.",
                         let_in}
                 : Cause{"is not to be reached: nobody in its network answers to the address",
                         "The network between the two is down, or they are in different networks with equal addresses.",
                         on_from + "ip neigh show " + place.address};
    case ENETUNREACH:
      return {"is not to be reached: " + from + " has no route to its network",
              "The two hosts are in different networks.",
              on_from + "ip route get " + place.address + "        or export ANELLO_INTERFACE= with a network of both"};
    case EACCES:
    case EPERM:
      return {std::string("is forbidden by ") + from + " itself (" + strerror(reach.error) + ")",
              "A firewall or a route on " + from + " forbids what it sends there.",
              on_from + "sudo " + tables + " -L OUTPUT; ip route get " + place.address};
    case EINVAL:
      return {"is behind a blackhole: a route of " + from + " discards what it sends there",
              "Ranks on " + from + " cannot connect to ranks on " + to + ".",
              on_from + ip + " route show type blackhole        and remove it: sudo " + ip + " route del blackhole .."};
    case EADDRINUSE:
      return {"is answered by another program or machine", "Two machines have the same address, or a proxy answers.",
              on_from + "ip neigh show " + place.address};
    default: break;
  }
  return {std::string("was not reached: ") + strerror(reach.error), "Ranks on the two hosts cannot connect.",
          on_from + "ip route get " + place.address};
}

}  // namespace

std::size_t PairFindings::Trial::best() const {
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (reached[i].error == 0) return i;
  }
  return 0;
}

bool PairFindings::Trial::works() const { return !reached.empty() && reached[best()].error == 0; }

void PairFindings::tried(const std::string& from, const std::string& to, std::vector<MeetingPlace> places,
                         std::vector<Reach> reached) {
  for (const std::string& host : {from, to}) {
    if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) hosts_.push_back(host);
  }
  reached.resize(places.size());
  trials_[{from, to}] = {from, to, std::move(places), std::move(reached)};
}

const PairFindings::Trial* PairFindings::find(const std::string& from, const std::string& to) const {
  const auto found = trials_.find({from, to});
  return found == trials_.end() ? nullptr : &found->second;
}

std::vector<Finding> PairFindings::findings() const {
  std::vector<Finding> all = reaching();
  for (Finding& each : clocks()) all.push_back(std::move(each));
  return all;
}

std::vector<Finding> PairFindings::reaching() const {
  std::vector<Finding> all;
  for (const std::string& from : hosts_) {
    std::string others;
    std::vector<Finding> not_reached;
    for (const std::string& to : hosts_) {
      const Trial* const trial = find(from, to);
      if (trial == nullptr) continue;
      if (trial->works()) {
        const std::size_t i = trial->best();
        others += (others.empty() ? "" : ", ") + to + " (" + trial->places[i].address + ", " +
                  milliseconds(trial->reached[i].microseconds) + ")";
      } else {
        not_reached.push_back(blocked(*trial));
      }
    }
    if (!others.empty()) all.push_back({Verdict::ok, from, "reaches " + others, "", ""});
    for (Finding& each : not_reached) all.push_back(std::move(each));
  }
  return all;
}

Finding PairFindings::blocked(const Trial& trial) const {
  const std::string name = trial.from + " to " + trial.to;
  const auto first = std::find_if(trial.places.begin(), trial.places.end(), is_for_others);
  if (first == trial.places.end()) {
    return {Verdict::problem, name, trial.to + " has no address that other hosts can reach, only its loopback",
            "Ranks on the two hosts cannot connect. Link-local addresses do not count: each is valid on one link only.",
            "on " + trial.to +
                ": ip -br addr        and sudo ip addr add ADDRESS/24 dev NAME, or unset an "
                "ANELLO_INTERFACE that leaves the address out"};
  }
  // How others know the first host: by an address of the same kind.
  std::string source;
  const MeetingPlace& place = *first;
  if (const Trial* const back = find(trial.to, trial.from)) {
    for (auto each = back->places.rbegin(); each != back->places.rend(); ++each) {
      if (is_ipv6(*each) == is_ipv6(place) && is_for_others(*each)) source = each->address;
    }
  }
  const auto spoken_of = static_cast<std::size_t>(first - trial.places.begin());
  const Cause cause = cause_of(trial.reached[spoken_of], trial.from, trial.to, place, source);
  std::string others;
  for (std::size_t i = spoken_of + 1; i < trial.places.size(); ++i) {
    if (!is_for_others(trial.places[i])) continue;
    others += "; " + trial.places[i].address + ": " + strerror(trial.reached[i].error);
  }
  const Trial* const back = find(trial.to, trial.from);
  const std::string one_way = back != nullptr && back->works() ? " The other way works." : "";
  return {Verdict::problem, name, written(place) + " " + cause.what + others, cause.meaning + one_way, cause.remedy};
}

// The clocks are compared with the first host's.
std::vector<Finding> PairFindings::clocks() const {
  std::vector<Finding> all;
  for (std::size_t i = 1; i < hosts_.size(); ++i) {
    const Trial* trial = find(hosts_.front(), hosts_[i]);
    std::int64_t sign = 1;
    if (trial == nullptr || !trial->works()) trial = find(hosts_[i], hosts_.front()), sign = -1;
    if (trial == nullptr || !trial->works()) continue;
    const Reach& reach = trial->reached[trial->best()];
    const std::int64_t ahead = sign * reach.clock_ahead_us, unsure = reach.microseconds / 2;
    const std::string name = "clock of " + hosts_[i];
    if (std::llabs(ahead) <= kClocksDifferUs + unsure) {
      all.push_back({Verdict::ok, name,
                     "like that of " + hosts_.front() + ", within " + duration(std::llabs(ahead) + unsure), "", ""});
      continue;
    }
    all.push_back({Verdict::warning, name,
                   duration(std::llabs(ahead)) + (ahead > 0 ? " ahead of " : " behind ") + hosts_.front(),
                   "The times in logs and traces of the two do not match. Jobs run all the same.",
                   "sudo timedatectl set-ntp true        on both hosts"});
  }
  return all;
}

}  // namespace anellorun
