#include "control/address.h"

#include "base/error.h"
#include "base/network_interfaces.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace anello::control {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress parse(const Address& address) {
  SocketAddress parsed;
  if (address.is_unix()) {
    auto& un = reinterpret_cast<sockaddr_un&>(parsed.storage);
    un.sun_family = AF_UNIX;
    const std::size_t length = std::min(address.unix_name.size(), sizeof un.sun_path - 1);
    std::memcpy(un.sun_path + 1, address.unix_name.data(), length);
    parsed.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    return parsed;
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.ip.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0) {
    throw Error(ANELLO_ERR_ADDRESS, text("\"", address.ip, "\" is not an address"));
  }
  std::memcpy(&parsed.storage, found->ai_addr, found->ai_addrlen);
  parsed.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return parsed;
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

int family_of(const SocketAddress& address) { return address.storage.ss_family; }

Address address_from(const SocketAddress& from) {
  Address address;
  if (family_of(from) == AF_UNIX) {
    const auto& un = reinterpret_cast<const sockaddr_un&>(from.storage);
    const std::size_t skipped = offsetof(sockaddr_un, sun_path) + 1;
    if (from.length > skipped) address.unix_name.assign(un.sun_path + 1, from.length - skipped);
    return address;
  }
  address.ip = numeric(from.get(), from.length);
  address.port = ntohs(family_of(from) == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(from.storage).sin6_port
                                                   : reinterpret_cast<const sockaddr_in&>(from.storage).sin_port);
  return address;
}

bool is_unix_socket(int socket) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

UniqueFd new_socket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // A connection that starts with bbr stays paced by a timer, whatever algorithm it gets later, so no connection starts
  // with bbr; accepted connections inherit the listener's algorithm. The transport sets the system's algorithm on data
  // connections that leave the host.
  constexpr char kUnpaced[] = "reno";
  if (socket && family != AF_UNIX)
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, kUnpaced, sizeof kUnpaced - 1);
  return socket;
}

}  // namespace

std::string Address::describe() const { return is_unix() ? "unix://" + unix_name : "tcp://" + with_port(ip, port); }

UniqueFd listen_at(const Address& address, bool& in_use) {
  in_use = false;
  const SocketAddress to = parse(address);
  UniqueFd socket = new_socket(family_of(to));
  if (!socket) {
    const bool lack = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    throw Error(lack ? ANELLO_ERR_RESOURCE : ANELLO_ERR_ADDRESS, system_text("socket", errno));
  }
  const int yes = 1;
  if (!address.is_unix()) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (family_of(to) == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  }
  if (::bind(socket.get(), to.get(), to.length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      in_use = true;
      return {};
    }
    throw Error(ANELLO_ERR_ADDRESS, text("cannot listen at ", address.describe(), ": ", system_text("bind", errno)));
  }
  return socket;
}

UniqueFd start_connect(const Address& address) {
  const SocketAddress to = parse(address);
  UniqueFd socket = new_socket(family_of(to));
  if (!socket) return socket;
  if (::connect(socket.get(), to.get(), to.length) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Address local_address(int socket) {
  SocketAddress here;
  here.length = sizeof here.storage;
  if (::getsockname(socket, here.get(), &here.length) != 0) throw system_error("getsockname", errno);
  return address_from(here);
}

Address peer_address(int socket) {
  SocketAddress there;
  there.length = sizeof there.storage;
  if (::getpeername(socket, there.get(), &there.length) != 0) return {};
  return address_from(there);
}

std::string source_of_datagrams(const Address& to) {
  try {
    const SocketAddress there = parse(to);
    const UniqueFd socket(::socket(family_of(there), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), there.get(), there.length) != 0) return {};
    return local_address(socket.get()).ip;
  } catch (const Error&) {
    return {};
  }
}

std::string resolve(const std::string& host, std::int64_t timeout_ms) {
  const auto failed = [&](const std::string& why) {
    return Error(ANELLO_ERR_ADDRESS, text("the meeting place's host \"", host, "\" cannot be resolved: ", why));
  };
  struct Answer {
    int error = 0;
    std::string ip;
  };
  const auto look_up = [](const std::string& name, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    Answer answer;
    answer.error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (answer.error == 0) {
      answer.ip = numeric(found->ai_addr, found->ai_addrlen);
      ::freeaddrinfo(found);
    }
    return answer;
  };
  if (const Answer answer = look_up(host, AI_NUMERICHOST); answer.error == 0) return answer.ip;
  // The resolver has its own long time limits, so a blocked resolver thread is abandoned.
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> future = promise->get_future();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([promise, look_up, host] { promise->set_value(look_up(host, AI_ADDRCONFIG)); }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ANELLO_ERR_RESOURCE, text("no thread to resolve \"", host, "\": ", error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (future.wait_for(std::chrono::milliseconds(timeout_ms)) != std::future_status::ready) {
    throw failed(text("no answer within ", timeout_ms, " ms"));
  }
  const Answer answer = future.get();
  if (answer.error != 0) throw failed(::gai_strerror(answer.error));
  return answer.ip;
}

namespace {

// Enough attempts that a lossy link does not lose them all.
constexpr int kProbes = 5;

void keep_alive(int socket, int idle_s, int interval_s) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

}  // namespace

void set_connection_options(int socket) {
  if (is_unix_socket(socket)) return;
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  keep_alive(socket, 5, 2);
}

void limit_idleness(int socket, std::int64_t ms) {
  constexpr std::int64_t kMost = 32'767;  // the kernel's default
  if (is_unix_socket(socket) || ms == 0) return;
  keep_alive(socket, static_cast<int>(std::clamp<std::int64_t>(ms / 1000, 1, kMost)),
             static_cast<int>(std::clamp<std::int64_t>(ms / 2000, 1, kMost)));
}

void limit_silence(int socket, std::int64_t ms) {
  if (is_unix_socket(socket)) return;
  limit_idleness(socket, ms);
  // Small messages are retransmitted at a steady pace, without growing delays, when data fills the link.
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
  // The heartbeat detects it first. Without a heartbeat, only the kernel finds out that a host is gone.
  const auto unanswered_ms = static_cast<unsigned int>(ms == 0 ? 15'000 : std::max<std::int64_t>(4 * ms, 1'000));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

}  // namespace anello::control
