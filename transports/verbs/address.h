#pragma once
// Where a port is on the fabric. It travels as it is, little-endian: to all ranks when they meet, and in the greeting
// of a lane.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::transport {

struct PortAddress {
  static constexpr std::uint8_t kVersion = 1, kInfiniBand = 1, kEthernet = 2, kIwarp = 3;

  std::uint8_t version = kVersion;
  std::uint8_t link = kInfiniBand;
  std::uint8_t mtu = 0;  // ibv_mtu
  std::uint8_t spare = 0;
  std::uint32_t lid = 0;               // InfiniBand only
  std::array<std::uint8_t, 16> gid{};  // of iWARP: the address of its network interface, as for RoCE

  // A GID of RoCE is an IPv6 address, or an IPv4 address mapped into one.
  bool is_ipv4() const;
  bool joins(const PortAddress& other) const;
  std::string bytes() const;
  std::string text() const;  // "RoCE, 10.77.0.1, MTU 4096"
  // Empty: these bytes are no address of this version.
  static std::optional<PortAddress> from(std::string_view bytes);
  // The same for one or more, behind one another.
  static std::vector<PortAddress> all_from(std::string_view bytes);
};
static_assert(sizeof(PortAddress) == 24);

}  // namespace anello::transport
