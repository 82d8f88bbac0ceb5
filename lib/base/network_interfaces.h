#pragma once
// This host's network interfaces, as the kernel lists them.
#include <string>
#include <vector>

namespace anello {

bool is_loopback(const std::string& ip);
// "10.1.2.3:4100", "[fd00::1]:4100", "alpha:4100".
std::string with_port(const std::string& host, int port);

struct NetworkInterface {
  std::string name;
  std::string ip;  // numeric; IPv6 with its scope if it has one
  bool up;

  // Only this host can use the address as it is written here: a scope is the number or name of an interface.
  bool has_scope() const { return ip.find('%') != std::string::npos; }
  bool is_ipv6() const { return ip.find(':') != std::string::npos; }
  // By its name, a bridge of a container engine or hypervisor. These have the same address on every host and lead to no
  // other one.
  bool is_bridge_of_engine() const;
};

// An interface appears once for each of its addresses. Empty if the kernel does not tell.
std::vector<NetworkInterface> network_interfaces();
// "eth0 (10.1.2.3, fd00::1), lo (127.0.0.1)".
std::string listed(const std::vector<NetworkInterface>& interfaces);

}  // namespace anello
