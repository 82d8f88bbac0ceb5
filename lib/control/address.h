#pragma once
// Where a process can be reached: an abstract Unix name (this host, this network namespace, nothing on disk) or an
// IP address and port. Listening and connecting, nonblocking.
#include "base/unique_fd.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anello::control {

struct Address {
  std::string unix_name;  // without the leading zero byte; empty: ip and port
  std::string ip;         // numeric, IPv6 with its scope where it has one; both empty: no address
  std::uint16_t port = 0;

  explicit operator bool() const { return !unix_name.empty() || !ip.empty(); }
  bool is_unix() const { return !unix_name.empty(); }
  std::string describe() const;
  bool operator==(const Address&) const = default;
};

// Throws Error: ANELLO_ERR_ADDRESS. in_use: set instead of throwing where somebody else has the address.
// Port 0: the kernel's choice, told by local_address.
UniqueFd listen_at(const Address& address, bool& in_use);
// Starts to connect: nonblocking, finished when writable and connect_result is 0. Error numbers by errno, empty then.
UniqueFd start_connect(const Address& address);
int connect_result(int socket);

Address local_address(int socket);
Address peer_address(int socket);  // empty: of a Unix socket without a name, or of none that is connected
bool is_loopback(const std::string& ip);
// Whether one of this host's interfaces has the address.
bool is_local(const std::string& ip);
// The address of this host from which packets to ip leave; empty: no route.
std::string source_towards(const std::string& ip);
// ANELLO_INTERFACE: an interface's name, or an address itself. Throws Error.
std::string address_of_interface(const std::string& name);

// Name service with a time limit: numeric addresses of host, in order of preference. Blocks; caller's thread.
// Throws Error: ANELLO_ERR_ADDRESS, naming host.
std::string resolve(const std::string& host, std::int64_t timeout_ms);

// These do nothing to Unix sockets.
void set_connection_options(int socket);  // no delay; a host that vanished is found out while nothing is sent
// Of a lane: the same by a limit of silence, after some times that. The heartbeat judges (heartbeat.h); this is for two
// hosts that do not hear each other while both are heard elsewhere.
void limit_idleness(int socket, std::int64_t ms);
// Also while something is: for control links only, because the kernel takes a receiver that does not read for a dead
// one then, and a rank that computes does not read its lanes.
void limit_silence(int socket, std::int64_t ms);

}  // namespace anello::control
