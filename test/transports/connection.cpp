#include "transports/connection.h"

#include "base/error.h"

#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace anello::testing {

std::pair<UniqueFd, UniqueFd> connected(bool ipv6, const char* congestion) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(sockaddr_in);
  if (ipv6) {
    auto& six = reinterpret_cast<sockaddr_in6&>(address);
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    bytes = sizeof six;
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  const auto new_socket = [&] {
    UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) throw system_error("socket", errno);
    if (congestion != nullptr)
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, congestion, socklen_t(std::strlen(congestion)));
    return socket;
  };
  const UniqueFd listener = new_socket();
  if (::bind(listener.get(), name, bytes) != 0) throw system_error("bind", errno);
  if (::listen(listener.get(), 1) != 0) throw system_error("listen", errno);
  if (::getsockname(listener.get(), name, &bytes) != 0) throw system_error("getsockname", errno);
  UniqueFd one = new_socket();
  if (::connect(one.get(), name, bytes) != 0) throw system_error("connect", errno);
  UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!other) throw system_error("accept4", errno);
  return {std::move(one), std::move(other)};
}

bool has_ipv6() {
  try {
    connected(true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace anello::testing
