#include "transports/tcp/transport.h"

#include "base/text.h"
#include "transports/striped/endpoint.h"
#include "transports/tcp/endpoint.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace anello::transport {
namespace {

// Copies the address alone as 16 bytes, an IPv4 one mapped into IPv6; false for other families.
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

// Whether both ends have the same address, or a loopback one.
bool stays_on_host(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  in6_addr local, remote;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_bytes) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_bytes) != 0) return false;
  if (!address_of(here, local) || !address_of(there, remote)) return false;
  return is_loopback(remote) || std::memcmp(&local, &remote, sizeof local) == 0;
}

// "10.1.0.1 to 10.1.0.2", for people.
std::string ends_of(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  in6_addr local, remote;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_bytes) != 0 || !address_of(here, local) ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_bytes) != 0 || !address_of(there, remote)) {
    return "a connection that has ended";
  }
  const auto numeric = [](const in6_addr& address) {
    char name[INET6_ADDRSTRLEN] = {};
    const bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&address);
    ::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, &address.s6_addr[is_ipv4 ? 12 : 0], name, sizeof name);
    return std::string(name);
  };
  return text(numeric(local), " to ", numeric(remote));
}

// The congestion control that a connection of this process gets by default.
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

  std::unique_ptr<Endpoint> open(int peer, int /*local_peer*/, Connections connections) override {
    if (connections.rails.size() < 2) return open_one(peer, connections.first());
    std::vector<Rail> rails;
    for (UniqueFd& fd : connections.rails) {
      std::string name = ends_of(fd.get());
      // A rail with a deep buffer would take its share of pieces however slow it is.
      const int unsent = 2 * kPieceBytes;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
      rails.push_back({open_one(peer, std::move(fd)), std::move(name)});
    }
    return std::make_unique<StripedEndpoint>(peer, std::move(rails));
  }

 private:
  std::unique_ptr<Endpoint> open_one(int peer, UniqueFd fd) const {
    if (!fd) throw Error(ANELLO_ERR_INTERNAL, text("no connection to rank ", peer), peer);
    // This fails on a stream that is not TCP, which does not need it.
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    choose_congestion(fd.get(), peer);
    // Bytes between two addresses of one host stay in its memory, which has checks of its own.
    const bool seals = checksum_ == "all" || (checksum_ == "auto" && !stays_on_host(fd.get()));
    return std::make_unique<TcpEndpoint>(peer, std::move(fd), staging_bytes_, Checks{seals, checksum_ != "off"});
  }

  void choose_congestion(int fd, int peer) const {
    const auto set = [&](const std::string& name) {
      return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) == 0;
    };
    if (congestion_.empty() || congestion_ == "auto") {
      // bbr paces by a timer, and on loopback there is nothing else to wait for. If reno is not allowed, this has no
      // effect.
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

// A block that is read in fewer calls costs less: with 512 KiB, an all-reduce of 1 MiB takes 0.95 of the time. But if
// the block leaves the near cache before it is reduced, it costs more: 1.02 with four ranks per processor, and 1.03 to
// 1.12 with a buffer of 1 MiB.
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
