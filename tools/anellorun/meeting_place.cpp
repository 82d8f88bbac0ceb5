#include "anellorun/meeting_place.h"

#include "anellorun/job_order.h"

#include "base/network_interfaces.h"

#include <string.h>

#include <algorithm>
#include <stdexcept>

namespace anellorun {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswer = 15s;  // a probe takes five

void wait_for_all(const std::vector<RemoteHost*>& hosts, const std::function<bool(const RemoteHost&)>& there,
                  std::chrono::seconds time, const std::string& what, const Wait& wait) {
  const auto all = [&] {
    return std::all_of(hosts.begin(), hosts.end(), [&](RemoteHost* host) { return there(*host); });
  };
  if (wait(all, time)) return;
  for (RemoteHost* host : hosts) {
    if (!there(*host))
      throw std::runtime_error("host " + host->name() + ": " + what + " within " + std::to_string(time / 1s) + " s");
  }
}

}  // namespace

MeetingPlace find_meeting_place(const std::vector<RemoteHost*>& hosts, const WantedInterfaces& interfaces,
                                const std::string& ports, const Wait& wait) {
  wait_for_all(
      hosts, [](const RemoteHost& host) { return host.greeted(); }, kGreeting, "its agent did not answer", wait);
  if (hosts.size() == 1) return place_on_this_host(ports);
  RemoteHost* const first = hosts.front();
  first->ask_offers(interfaces, ports);
  wait_for_all(
      {first}, [](const RemoteHost& host) { return host.offers().has_value(); }, kAnswer,
      "its agent did not say its addresses", wait);
  const std::vector<MeetingPlace> places = *first->offers();
  const std::vector<RemoteHost*> others(hosts.begin() + 1, hosts.end());
  for (RemoteHost* host : others) host->ask_probe(first->nonce(), places);
  wait_for_all(
      others, [](const RemoteHost& host) { return host.probed().has_value(); }, kAnswer,
      "its agent did not say what it reaches", wait);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (std::all_of(others.begin(), others.end(),
                    [i](const RemoteHost* host) { return host->probed()->at(i).error == 0; }))
      return places[i];
  }
  const auto for_others = [](const MeetingPlace& place) { return !anello::is_loopback(place.address); };
  if (std::none_of(places.begin(), places.end(), for_others)) {
    throw std::runtime_error(
        "host " + first->name() + ", where rank 0 is, has no address that other hosts can reach: " +
        (interfaces.value.empty() ? "there are only its loopback and link-local addresses"
                                  : interfaces.variable + "=" + interfaces.value + " leaves only its loopback") +
        "\nLook at its addresses: ip -br addr");
  }
  std::string why = "no address of host " + first->name() + ", where rank 0 is, is reached by all other hosts:";
  for (const RemoteHost* host : others) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const int error = host->probed()->at(i).error;
      if (error == 0 || !for_others(places[i])) continue;
      why += "\n  " + host->name() + " to " + written(places[i]) + ": " +
             (error == EADDRINUSE ? "another host answers there" : strerror(error));
    }
  }
  throw std::runtime_error(why +
                           "\nLook for a firewall between the hosts, or list first a host that all others reach.");
}

}  // namespace anellorun
