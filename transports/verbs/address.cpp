#include "transports/verbs/address.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>

namespace anello::transport {

bool PortAddress::is_ipv4() const {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) && gid[10] == 0xff &&
         gid[11] == 0xff;
}

// A subnet of InfiniBand has a prefix, the first half of its GIDs.
bool PortAddress::joins(const PortAddress& other) const {
  if (link != other.link) return false;
  if (link != kInfiniBand) return is_ipv4() == other.is_ipv4();
  return std::equal(gid.begin(), gid.begin() + 8, other.gid.begin());
}

std::string PortAddress::bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }

std::string PortAddress::text() const {
  char digits[INET6_ADDRSTRLEN] = {};
  if (is_ipv4()) {
    ::inet_ntop(AF_INET, &gid[12], digits, sizeof digits);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), digits, sizeof digits);
  }
  if (link == kIwarp) return anello::text("iWARP, ", digits);
  const std::string where = link == kEthernet ? "RoCE, " : anello::text("InfiniBand, LID ", lid, ", ");
  return anello::text(where, digits, ", MTU ", 128 << mtu);
}

std::optional<PortAddress> PortAddress::from(std::string_view bytes) {
  PortAddress address;
  if (bytes.size() != sizeof address) return std::nullopt;
  std::memcpy(&address, bytes.data(), sizeof address);
  const bool right = address.version == kVersion && address.link >= kInfiniBand && address.link <= kIwarp &&
                     address.mtu >= 1 && address.mtu <= 5 && address.lid <= 0xffff;
  return right ? std::optional(address) : std::nullopt;
}

std::vector<PortAddress> PortAddress::all_from(std::string_view bytes) {
  std::vector<PortAddress> addresses;
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(PortAddress))) {
    const std::optional<PortAddress> next = from(bytes.substr(0, sizeof(PortAddress)));
    if (!next) return {};
    addresses.push_back(*next);
  }
  return addresses;
}

}  // namespace anello::transport
