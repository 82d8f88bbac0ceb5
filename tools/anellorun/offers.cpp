#include "anellorun/offers.h"

#include "anellorun/socket_address.h"

#include "base/interface_filter.h"
#include "base/network_interfaces.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <tuple>

namespace anellorun {
namespace {

// In order of preference. A scope means something on the host of the interface only, so others cannot use such an
// address. The loopback comes last: it serves "hosts" that are one machine.
std::vector<anello::NetworkInterface> interfaces() {
  std::vector<anello::NetworkInterface> found = anello::network_interfaces();
  found.erase(std::remove_if(found.begin(), found.end(), [](const auto& each) { return !each.up || each.has_scope(); }),
              found.end());
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const auto worse = [](const anello::NetworkInterface& each) {
      return std::tuple(anello::is_loopback(each.ip), each.is_bridge_of_engine(), each.is_ipv6());
    };
    return worse(a) < worse(b);
  });
  return found;
}

}  // namespace

std::int64_t microseconds_since_1970() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

Offers::Offers(const std::string& variable, const std::string& interface, const std::string& ports) {
  nonce_.resize(kNonceBytes);
  draw(nonce_.data(), nonce_.size());
  const std::vector<std::uint16_t> allowed = allowed_ports(ports);
  const anello::InterfaceFilter wanted(interface);
  const std::string fault = wanted.fault();
  if (!fault.empty()) throw std::runtime_error(variable + "=" + interface + ": " + fault);
  bool any = false;
  int error = 0;
  for (const anello::NetworkInterface& each : interfaces()) {
    if (!wanted.matches(each.name, each.ip)) continue;
    any = true;
    error = offer(each.ip, allowed);
  }
  if (!places_.empty()) return;
  throw std::runtime_error(any                 ? none_free(ports, error)
                           : interface.empty() ? "it has no network address at which others could reach it"
                                               : anello::means_none(variable, interface, anello::network_interfaces()));
}

int Offers::offer(const std::string& ip, const std::vector<std::uint16_t>& ports) {
  int error = 0;
  for (const std::uint16_t port : ports) {
    SocketAddress address = socket_address(ip, port);
    Descriptor socket = listen_at(address);
    if (!socket) {  // the port is in use, or the address is not ready yet
      error = errno;
      continue;
    }
    places_.push_back({ip, address.port()});
    listeners_.push_back(std::move(socket));
    return 0;
  }
  return error;
}

void Offers::watch(std::vector<pollfd>& into) {
  for (const Descriptor& listener : listeners_) into.push_back({listener.get(), POLLIN, 0});
}

void Offers::take(const pollfd* entries) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[i].revents == 0) continue;
    const Descriptor visitor(accept4(listeners_[i].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!visitor) continue;
    std::array<char, kGreetingBytes> greeting;
    memcpy(greeting.data(), nonce_.data(), kNonceBytes);
    const std::int64_t now = microseconds_since_1970();
    memcpy(greeting.data() + kNonceBytes, &now, sizeof now);
    [[maybe_unused]] const ssize_t sent = send(visitor.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  }
}

}  // namespace anellorun
