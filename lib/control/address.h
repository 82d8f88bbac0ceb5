#pragma once
// The address of a process: an abstract Unix name (this host, this network namespace, nothing on disk) or an IP address
// and port. Nonblocking functions to listen and connect.
#include "base/unique_fd.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anello::control {

struct Address {
  std::string unix_name;  // without the leading zero byte; empty: ip and port
  std::string ip;         // numeric, IPv6 with its scope if it has one; both empty: no address
  std::uint16_t port = 0;

  explicit operator bool() const { return !unix_name.empty() || !ip.empty(); }
  bool is_unix() const { return !unix_name.empty(); }
  std::string describe() const;
  bool operator==(const Address&) const = default;
};

// Throws Error: ANELLO_ERR_ADDRESS. in_use: set instead of throwing if another socket has the address.
// Port 0: the kernel chooses, and local_address returns its choice.
UniqueFd listen_at(const Address& address, bool& in_use);
// Starts a nonblocking connect, which is complete when the socket is writable and connect_result is 0. On failure it
// returns an empty descriptor and sets errno.
UniqueFd start_connect(const Address& address);
int connect_result(int socket);

Address local_address(int socket);
Address peer_address(int socket);  // empty: a Unix socket without a name, or a socket that is not connected
// The address of this host from which datagrams to another address leave; empty: no route. Sends nothing.
std::string source_of_datagrams(const Address& to);

// Name service with a time limit: returns the numeric addresses of host, in order of preference. Blocks the caller's
// thread.
// Throws Error: ANELLO_ERR_ADDRESS, naming host.
std::string resolve(const std::string& host, std::int64_t timeout_ms);

// These do nothing for Unix sockets.
void set_connection_options(int socket);  // no delay; detects a vanished host even while nothing is sent
// For a lane: detects it after several times the silence limit. The heartbeat decides (heartbeat.h); this covers two
// hosts that do not hear each other while others hear both.
void limit_idleness(int socket, std::int64_t ms);
// Detects it also while data is being sent. Only for control links, because the kernel then treats a receiver that does
// not read as dead, and a computing rank does not read its lanes.
void limit_silence(int socket, std::int64_t ms);

}  // namespace anello::control
