#include "anellorun/meeting_probe.h"

#include "base/interface_filter.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace anellorun {
namespace {

constexpr std::chrono::milliseconds kMoreForOthers{500};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// An empty one if ip is not a numeric address.
SocketAddress parse(const std::string& ip, int port) {
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

struct Interface {
  std::string name;
  std::string ip;
  bool six;
  bool loopback;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char host[NI_MAXHOST];
    const socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(entry->ifa_addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    // A scope counts on the host that has the interface only, so others cannot use such an address.
    if (strchr(host, '%') != nullptr) continue;
    found.push_back({entry->ifa_name, host, family == AF_INET6, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // The loopback comes last: it serves "hosts" that are one machine. IPv4 comes first.
  std::stable_sort(found.begin(), found.end(), [](const Interface& a, const Interface& b) {
    return std::pair(a.loopback, a.six) < std::pair(b.loopback, b.six);
  });
  return found;
}

}  // namespace

Offers::Offers(const std::string& interface, const std::string& ports) {
  nonce_.resize(16);
  draw(nonce_.data(), nonce_.size());
  int low = 0, high = 0;
  if (!anello::parse_port_range(ports, low, high))
    throw std::runtime_error("ANELLO_PORT_RANGE=" + ports + " is not LOW-HIGH, from 1 to 65535");
  const anello::InterfaceFilter wanted(interface);
  bool any = false;
  for (const Interface& each : interfaces()) {
    if (!wanted.matches(each.name, each.ip)) continue;
    any = true;
    offer(each.ip, low, high);
  }
  if (!places_.empty()) return;
  throw std::runtime_error(any ? "no port of ANELLO_PORT_RANGE=" + ports + " is free"
                           : interface.empty()
                               ? "it has no network address at which others could reach it"
                               : "ANELLO_INTERFACE=" + interface + ": no interface has this name or address");
}

void Offers::offer(const std::string& ip, int low, int high) {
  for (int port = low; port <= high; ++port) {
    SocketAddress address = parse(ip, port);
    Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket || bind(socket.get(), address.get(), address.length) != 0 || listen(socket.get(), SOMAXCONN) != 0 ||
        getsockname(socket.get(), address.get(), &address.length) != 0) {
      continue;  // the port is in use, or the address is not ready yet
    }
    places_.push_back({ip, ntohs(address.storage.ss_family == AF_INET
                                     ? reinterpret_cast<const sockaddr_in&>(address.storage).sin_port
                                     : reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port)});
    listeners_.push_back(std::move(socket));
    return;
  }
}

void Offers::watch(std::vector<pollfd>& into) {
  for (const Descriptor& listener : listeners_) into.push_back({listener.get(), POLLIN, 0});
}

void Offers::take(const pollfd* entries) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[i].revents == 0) continue;
    const Descriptor visitor(accept4(listeners_[i].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (visitor) [[maybe_unused]]
      const ssize_t sent = send(visitor.get(), nonce_.data(), nonce_.size(), MSG_NOSIGNAL);
  }
}

std::vector<int> probe(std::string_view nonce, const std::vector<MeetingPlace>& places,
                       std::chrono::milliseconds time) {
  auto end = std::chrono::steady_clock::now() + time;
  std::vector<int> errors(places.size(), ETIMEDOUT);
  std::vector<Descriptor> sockets(places.size());
  std::vector<std::string> got(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    SocketAddress to = parse(places[i].address, places[i].port);
    sockets[i] = Descriptor(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (sockets[i] && (connect(sockets[i].get(), to.get(), to.length) == 0 || errno == EINPROGRESS)) continue;
    errors[i] = errno;
    sockets[i].close();
  }
  for (;;) {
    std::vector<pollfd> watched;
    for (const Descriptor& socket : sockets) watched.push_back({socket.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const bool none = std::none_of(sockets.begin(), sockets.end(), [](const Descriptor& each) { return bool(each); });
    if (none || left <= 0) return errors;
    poll(watched.data(), watched.size(), static_cast<int>(left));
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      char bytes[16];
      const ssize_t count = recv(sockets[i].get(), bytes, std::min(sizeof bytes, nonce.size() - got[i].size()), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) errors[i] = errno;
      if (count == 0) errors[i] = ECONNRESET;
      if (count > 0) {
        got[i].append(bytes, static_cast<std::size_t>(count));
        if (got[i].size() < nonce.size()) continue;
        errors[i] = got[i] == nonce ? 0 : EADDRINUSE;  // another program has this address on another host
        // One is enough: the others get a moment more, so that all hosts find the same ones.
        if (errors[i] == 0) end = std::min(end, std::chrono::steady_clock::now() + kMoreForOthers);
      }
      sockets[i].close();
    }
  }
}

}  // namespace anellorun
