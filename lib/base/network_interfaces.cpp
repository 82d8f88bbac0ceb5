#include "base/network_interfaces.h"

#include "base/interface_filter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace anello {

bool is_loopback(const std::string& ip) { return ip.rfind("127.", 0) == 0 || ip == "::1"; }

std::string with_port(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool NetworkInterface::is_bridge_of_engine() const {
  static const InterfaceFilter engines("docker,virbr,br-,cni,podman");
  return engines.matches(name, "");
}

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> found;
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

std::string listed(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::pair<std::string, std::string>> addresses;  // the kernel lists IPv4 first, then IPv6
  for (const NetworkInterface& each : interfaces) {
    const auto known = std::find_if(addresses.begin(), addresses.end(),
                                    [&](const auto& interface) { return interface.first == each.name; });
    if (known == addresses.end()) {
      addresses.emplace_back(each.name, each.ip);
    } else {
      known->second += ", " + each.ip;
    }
  }
  std::string list;
  for (const auto& [name, ips] : addresses) list += (list.empty() ? "" : ", ") + name + " (" + ips + ")";
  return list.empty() ? "none that is up" : list;
}

}  // namespace anello
