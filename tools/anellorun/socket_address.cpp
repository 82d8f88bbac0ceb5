#include "anellorun/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

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

}  // namespace anellorun
