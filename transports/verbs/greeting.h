#pragma once
// What an end of a lane says first over the socket that control has authenticated: its ring, and a queue pair for each
// of its ports. Both ends then know which ports go together: each pair is a rail.
#include "transports/verbs/address.h"
#include "transports/verbs/lane_shape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::transport {

// A queue pair, for the peer's that is to be connected with it.
struct VerbsPairName {
  std::uint32_t number = 0;  // 0: there is none
  std::uint32_t first_packet = 0;
  std::uint32_t reads = 0;  // of the peer that it serves at once
  // iWARP (joiner.h):
  std::uint32_t tcp_port = 0;
  std::uint64_t secret = 0;

  bool is_right() const { return number <= 0xffffff && first_packet <= 0xffffff && tcp_port <= 0xffff; }
};

// A port, a queue pair there for the lane and, if it has a number, one for transfers (transfer_rail.h), and the key
// with which the peer writes the ring through it. All structs are little-endian.
struct RailOffer {
  PortAddress port;
  VerbsPairName pair;
  VerbsPairName memory;
  std::uint32_t ring_key = 0;
  std::uint32_t spare = 0;

  bool is_right() const;
};
static_assert(sizeof(RailOffer) == 80);

struct VerbsGreeting {
  static constexpr std::uint64_t kMagic = 0x34736272'65766e61;  // "anverbs4"

  std::uint64_t magic = kMagic;
  std::uint64_t ring = 0;  // the receiver's
  std::uint32_t ring_slots = kSlots;
  std::uint32_t ports = 0;
  std::array<RailOffer, kMostRails> offers{};

  bool is_right() const;
};
static_assert(sizeof(VerbsGreeting) == 24 + kMostRails * sizeof(RailOffer));

// For each of this end's ports the peer's that goes with it, or -1. The first of a kind and subnet goes with the peer's
// first of the same, the second with the second; so both ends find the same.
std::vector<int> match_ports(const std::vector<PortAddress>& mine, const std::vector<PortAddress>& theirs);

}  // namespace anello::transport
