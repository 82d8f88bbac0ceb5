#include "anellorun/socket_address.h"

#include "base/port_range.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace anellorun {

int SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

SocketAddress socket_address(const std::string& ip, int port) {
  SocketAddress parsed;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return parsed;
  memcpy(&parsed.storage, found->ai_addr, found->ai_addrlen);
  parsed.length = found->ai_addrlen;
  freeaddrinfo(found);
  return parsed;
}

Descriptor listen_at(SocketAddress& address) {
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // As the library does: connections of the job before keep no port busy.
  const int yes = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!socket || bind(socket.get(), address.get(), address.length) != 0 || listen(socket.get(), SOMAXCONN) != 0 ||
      getsockname(socket.get(), address.get(), &address.length) != 0)
    return {};
  return socket;
}

std::vector<std::uint16_t> allowed_ports(const std::string& range) {
  int low = 0, high = 0;
  if (!anello::parse_port_range(range, low, high))
    throw std::runtime_error("ANELLO_PORT_RANGE=" + range + " is not LOW-HIGH, from 1 to 65535");
  std::vector<std::uint16_t> ports = anello::ports_in_turn(range);
  std::erase(ports, 65535);
  if (ports.empty())
    throw std::runtime_error("ANELLO_PORT_RANGE=" + range + " has no port for the meeting place, from 1 to 65534");
  return ports;
}

std::string none_free(const std::string& range, int error) {
  const std::string low = range.substr(0, range.find('-'));
  const bool one = range == low + "-" + low;
  if (error == EADDRINUSE)
    return one ? "port " + low + " is in use" : "no port of ANELLO_PORT_RANGE=" + range + " is free";
  return "cannot listen at " +
         (range.empty() ? "any port"
          : one         ? "port " + low
                        : "a port of ANELLO_PORT_RANGE=" + range) +
         ": " + strerror(error);
}

}  // namespace anellorun
