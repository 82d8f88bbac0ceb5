// Whether ranks can listen where they are told to, and are reached there from this host. Whether other hosts reach them
// only these can tell: anellorun --doctor.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"

#include "base/config.h"
#include "base/port_range.h"
#include "base/unique_fd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>

namespace info::doctor {
namespace {

constexpr int kPatienceMs = 2'000;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& ip, int port) {
  SocketAddress address;
  if (ip.find(':') != std::string::npos) {
    auto& six = reinterpret_cast<sockaddr_in6&>(address.storage);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET6, ip.c_str(), &six.sin6_addr);
    address.length = sizeof six;
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(address.storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, ip.c_str(), &four.sin_addr);
    address.length = sizeof four;
  }
  return address;
}

// A socket that has the port; an empty one if another program has it.
anello::UniqueFd bind_to(const std::string& ip, int port) {
  SocketAddress address = socket_address(ip, port);
  anello::UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket && bind(socket.get(), address.get(), address.length) == 0) return socket;
  return {};
}

// 0, or the error of a connection to the socket's own address.
int try_to_reach(const anello::UniqueFd& listener) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (listen(listener.get(), 1) != 0 || getsockname(listener.get(), address.get(), &address.length) != 0) return errno;
  const anello::UniqueFd visitor(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(visitor.get(), address.get(), address.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd watched{visitor.get(), POLLOUT, 0};
  if (poll(&watched, 1, kPatienceMs) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(visitor.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

Finding ports() {
  const char* const kName = "ports";
  const std::string& range = anello::Config::get().port_range;
  const std::string outward = outward_address(), ip = outward.empty() ? "127.0.0.1" : outward;
  int low = 0, high = 0, free = 0;
  anello::parse_port_range(range, low, high);
  anello::UniqueFd listener;
  for (int port = low; port <= high; ++port) {
    anello::UniqueFd socket = bind_to(ip, port);
    if (!socket) continue;
    ++free;
    if (!listener) listener = std::move(socket);
  }
  const std::string all = std::to_string(high - low + 1);
  if (!listener) {
    return problem(
        kName, range.empty() ? "none is free on " + ip : "none of ANELLO_PORT_RANGE=" + range + " is free",
        "Ranks cannot listen, so jobs that use TCP do not start.",
        range.empty() ? "ss -ltn        shows who listens" : "unset ANELLO_PORT_RANGE        or a wider one");
  }
  if (const int error = try_to_reach(listener); error != 0) {
    return problem(kName, "this host does not reach its own address " + ip + ": " + strerror(error),
                   error == ETIMEDOUT
                       ? "A firewall drops connections, even from this host: jobs that use TCP do not start."
                       : "Jobs that use TCP do not start.",
                   "sudo nft list ruleset        or sudo iptables -L; and ip link set lo up if the loopback is down");
  }
  if (range.empty()) return ok(kName, "any free one; this host reaches itself at " + ip);
  return ok(kName, std::to_string(free) + " of the " + all + " of ANELLO_PORT_RANGE=" + range +
                       " are free: enough for as many ranks on this host");
}

}  // namespace info::doctor
