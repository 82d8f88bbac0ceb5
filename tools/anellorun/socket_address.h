#pragma once
#include "anellorun/descriptor.h"

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace anellorun {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int port() const;
};

// An empty one if ip is not a numeric address.
SocketAddress socket_address(const std::string& ip, int port);

// A nonblocking socket that listens there; port 0: at a free one, which address then has. Empty if that is not
// possible; errno says why.
Descriptor listen_at(SocketAddress& address);

// The ports of a meeting place that ANELLO_PORT_RANGE allows, in the order to try them; 0: any. 65535 is left out: rank
// 0 may take the port after the place's. Throws std::runtime_error.
std::vector<std::uint16_t> allowed_ports(const std::string& range);
// Why no port of the range could be had, whose last one failed with this error number: "no port of .. is free", "port
// .. is in use", "cannot listen at port ..: Permission denied"
std::string none_free(const std::string& range, int error);

}  // namespace anellorun
