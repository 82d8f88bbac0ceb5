#include "control/interfaces.h"

#include "base/error.h"
#include "base/interface_filter.h"
#include "base/text.h"
#include "control/address.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace anello::control {
namespace {

struct Interface {
  std::string name;
  std::string ip;
  bool up;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char ip[NI_MAXHOST];
    const socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::getnameinfo(entry->ifa_addr, length, ip, sizeof ip, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    found.push_back({entry->ifa_name, ip, (entry->ifa_flags & IFF_UP) != 0});
  }
  return found;
}

bool has_scope(const std::string& ip) { return ip.find('%') != std::string::npos; }

}  // namespace

bool is_loopback(const std::string& ip) { return ip.rfind("127.", 0) == 0 || ip == "::1"; }

bool is_local(const std::string& ip) {
  const std::vector<Interface> all = interfaces();
  return is_loopback(ip) || std::any_of(all.begin(), all.end(), [&](const Interface& each) { return each.ip == ip; });
}

std::string source_towards(const std::string& ip) {
  // Connecting a datagram socket sends nothing: the kernel only looks up the route.
  return source_of_datagrams({"", ip, 9});
}

std::string address_of_interface(const std::string& filter, const std::string& destination) {
  const InterfaceFilter wanted(filter);
  const std::string leads_there = destination.empty() ? std::string() : source_towards(destination);
  std::vector<Interface> matching;
  for (const Interface& each : interfaces()) {
    if (wanted.matches(each.name, each.ip)) matching.push_back(each);
  }
  if (matching.empty()) {
    throw Error(ANELLO_ERR_ADDRESS, text("ANELLO_INTERFACE=", filter, ": no interface has this name or address"));
  }
  const auto rank = [&](const Interface& each) {
    const bool named = wanted.names(each.name, each.ip);
    return (each.ip == leads_there ? 0 : 8) + (named ? 0 : 4) + (each.up ? 0 : 2) + (has_scope(each.ip) ? 1 : 0);
  };
  return std::min_element(matching.begin(), matching.end(),
                          [&](const Interface& a, const Interface& b) { return rank(a) < rank(b); })
      ->ip;
}

std::string address_towards(const std::string& destination) {
  if (!destination.empty() && is_local(destination) && !is_loopback(destination)) return destination;
  // The last two stand for the rest of the network.
  for (const std::string& somewhere : {destination, std::string("192.0.2.1"), std::string("2001:db8::1")}) {
    const std::string ip = somewhere.empty() ? somewhere : source_towards(somewhere);
    if (!ip.empty() && !is_loopback(ip)) return ip;
  }
  // Bridges of container engines have the same address on every host.
  const InterfaceFilter engines("docker,virbr,br-,cni,podman");
  std::string last_resort;
  for (const Interface& each : interfaces()) {
    if (!each.up || is_loopback(each.ip) || has_scope(each.ip)) continue;
    if (!engines.matches(each.name, "")) return each.ip;
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
