#include "control/interfaces.h"

#include "base/config.h"
#include "base/error.h"
#include "base/interface_filter.h"
#include "base/text.h"
#include "control/address.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace anello::control {

bool is_local(const std::string& ip) {
  const std::vector<NetworkInterface> all = network_interfaces();
  return is_loopback(ip) || std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.ip == ip; });
}

std::string source_towards(const std::string& ip) {
  // Connecting a datagram socket sends nothing: the kernel only looks up the route.
  return source_of_datagrams({"", ip, 9});
}

std::string address_of_interface(const std::string& filter, const std::string& destination) {
  const InterfaceFilter wanted(filter);
  const std::string leads_there = destination.empty() ? std::string() : source_towards(destination);
  const std::vector<NetworkInterface> all = network_interfaces();
  std::vector<NetworkInterface> matching;
  for (const NetworkInterface& each : all) {
    if (wanted.matches(each.name, each.ip)) matching.push_back(each);
  }
  if (matching.empty()) {
    const char* const variable = Config::get().interfaces.empty() ? "ANELLO_INTERFACE" : "ANELLO_INTERFACES";
    throw Error(ANELLO_ERR_ADDRESS, means_none(variable, filter, all));
  }
  // "^eth1" also matches the loopback and a container engine's bridge, which lead to no other host.
  const auto worse = [&](const NetworkInterface& each) {
    return std::tuple(each.ip != leads_there, !wanted.names(each.name, each.ip), !each.up,
                      is_loopback(each.ip) || each.is_bridge_of_engine(), each.has_scope());
  };
  return std::min_element(matching.begin(), matching.end(),
                          [&](const auto& a, const auto& b) { return worse(a) < worse(b); })
      ->ip;
}

std::string words_without_interface(const std::string& filter) {
  const std::vector<NetworkInterface> all = network_interfaces();
  std::string idle;
  for (const std::string& word : InterfaceFilter(filter).idle_words(all)) idle += (idle.empty() ? "" : ", ") + word;
  if (idle.empty()) return {};
  return text("ANELLO_INTERFACES=", filter, ": no interface has the name or address ", idle, "; there are ",
              listed(all));
}

std::vector<std::string> addresses_beside(const std::string& first, const std::string& filter, std::size_t most) {
  const InterfaceFilter wanted(filter);
  const bool ipv6 = first.find(':') != std::string::npos;
  std::vector<NetworkInterface> all = network_interfaces(), beside;
  const auto left_out =
      std::find_if(all.begin(), all.end(), [&](const NetworkInterface& each) { return each.ip == first; });
  const std::string left_out_name = left_out == all.end() ? std::string() : left_out->name;
  std::stable_partition(all.begin(), all.end(), [&](const auto& each) { return each.is_ipv6() == ipv6; });
  for (const NetworkInterface& each : all) {
    if (!wanted.matches(each.name, each.ip) || !each.up || each.has_scope() || each.name == left_out_name) continue;
    if (!wanted.names(each.name, each.ip) && (is_loopback(each.ip) || each.is_bridge_of_engine())) continue;
    const auto same = [&](const NetworkInterface& other) { return other.name == each.name; };
    if (std::none_of(beside.begin(), beside.end(), same)) beside.push_back(each);
  }
  std::vector<std::string> addresses;
  for (const NetworkInterface& each : beside) {
    if (addresses.size() < most) addresses.push_back(each.ip);
  }
  return addresses;
}

std::string address_towards(const std::string& destination) {
  if (!destination.empty() && is_local(destination) && !is_loopback(destination)) return destination;
  // The last two stand for the rest of the network.
  for (const std::string& somewhere : {destination, std::string("192.0.2.1"), std::string("2001:db8::1")}) {
    const std::string ip = somewhere.empty() ? somewhere : source_towards(somewhere);
    if (!ip.empty() && !is_loopback(ip)) return ip;
  }
  std::string last_resort;
  for (const NetworkInterface& each : network_interfaces()) {
    if (!each.up || is_loopback(each.ip) || each.has_scope()) continue;
    if (!each.is_bridge_of_engine()) return each.ip;
    if (last_resort.empty()) last_resort = each.ip;
  }
  return last_resort;
}

std::string with_scope_of(const std::string& told, const std::string& own) {
  const std::size_t scope = told.find('%'), own_scope = own.find('%');
  if (scope == std::string::npos || own_scope == std::string::npos) return told;
  return told.substr(0, scope) + own.substr(own_scope);
}

}  // namespace anello::control
