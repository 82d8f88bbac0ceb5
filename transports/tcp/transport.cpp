#include "transports/tcp/transport.h"

#include "base/text.h"
#include "transports/tcp/endpoint.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace anello::transport {
namespace {

// The address alone as 16 bytes, an IPv4 one as IPv6 maps it; false for other families.
bool address_of(const sockaddr_storage& from, in6_addr& address) {
  if (from.ss_family == AF_INET6) {
    address = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    return true;
  }
  if (from.ss_family != AF_INET) return false;
  address = {};
  address.s6_addr[10] = address.s6_addr[11] = 0xff;
  std::memcpy(&address.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(from).sin_addr, 4);
  return true;
}

bool is_loopback(const in6_addr& address) {
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

// Both ends have one address, or a loopback one: nothing leaves the host.
bool stays_on_host(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  in6_addr local, remote;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_bytes) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_bytes) != 0) return false;
  if (!address_of(here, local) || !address_of(there, remote)) return false;
  return is_loopback(remote) || std::memcmp(&local, &remote, sizeof local) == 0;
}

// What a connection of this process gets that nobody asks anything for.
std::string system_congestion() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t bytes = sizeof name - 1;
  return socket && ::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? name : "";
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::string congestion, std::size_t staging_bytes, std::string checksum)
      : congestion_(std::move(congestion)),
        checksum_(std::move(checksum)),
        system_(system_congestion()),
        staging_bytes_(staging_bytes) {}

  std::string_view name() const override { return "tcp"; }
  bool needs_connection() const override { return true; }

  std::unique_ptr<Endpoint> open(int peer, int /*local_peer*/, UniqueFd fd) override {
    if (!fd) throw Error(ANELLO_ERR_INTERNAL, text("no connection to rank ", peer), peer);
    // Fails on a stream that is no TCP, which needs it as little.
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    choose_congestion(fd.get(), peer);
    // Between two addresses of one host nothing leaves its memory, whose errors its own checks find.
    const bool seals = checksum_ == "all" || (checksum_ == "auto" && !stays_on_host(fd.get()));
    return std::make_unique<TcpEndpoint>(peer, std::move(fd), staging_bytes_, Checks{seals, checksum_ != "off"});
  }

 private:
  void choose_congestion(int fd, int peer) const {
    const auto set = [&](const std::string& name) {
      return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) == 0;
    };
    if (congestion_.empty() || congestion_ == "auto") {
      // bbr paces by a timer, which on loopback is all there is to wait for. Where reno is not allowed, as it was.
      set(congestion_ == "auto" && stays_on_host(fd) ? "reno" : system_);
      return;
    }
    if (!set(congestion_)) {
      throw Error(ANELLO_ERR_ARGUMENT,
                  text("ANELLO_TCP_CONGESTION=", congestion_, " for the connection to rank ", peer, ": ",
                       system_text("setsockopt", errno),
                       "; see /proc/sys/net/ipv4/tcp_allowed_congestion_control for what is allowed"),
                  peer);
    }
  }

  std::string congestion_;
  std::string checksum_;
  std::string system_;
  std::size_t staging_bytes_;
};

// A block that is read in fewer calls costs less: twice as much at once takes 0.95 of an all-reduce's time at 1 MiB.
// But not where it has left the near cache before it is reduced: 1.02 with four ranks a processor, of 1 MiB 1.03
// to 1.12.
std::size_t staging_bytes(int ranks_per_processor) { return (ranks_per_processor <= 2 ? 512 : 256) * 1024; }

std::string try_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_text("socket(AF_INET)", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_text("binding to 127.0.0.1", errno);
  }
  if (::listen(socket.get(), 1) != 0) return system_text("listening on 127.0.0.1", errno);
  return {};
}

}  // namespace

std::unique_ptr<Transport> make_tcp(std::string congestion, int ranks_per_processor, std::string checksum) {
  return std::make_unique<TcpTransport>(std::move(congestion), staging_bytes(ranks_per_processor), std::move(checksum));
}

std::string tcp_why_not() {
  const std::string reason = try_loopback();
  if (reason.empty()) return {};
  return text(reason, "; a sandbox forbids sockets, or the loopback interface is down (ip link set lo up)");
}

bool tcp_reaches(const Place& /*a*/, const Place& /*b*/) { return true; }

std::string tcp_why_unreached(const Place& /*a*/, const Place& /*b*/) { return {}; }

}  // namespace anello::transport
