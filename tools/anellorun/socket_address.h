#pragma once
#include <sys/socket.h>

#include <string>

namespace anellorun {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int port() const;
};

// An empty one if ip is not a numeric address.
SocketAddress socket_address(const std::string& ip, int port);

}  // namespace anellorun
