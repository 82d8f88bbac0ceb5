#pragma once
// The information that a rank gives the others when they meet, and its later state.
#include "control/address.h"
#include "control/job.h"
#include "control/wire.h"

#include <bitset>
#include <string>
#include <vector>

namespace anello::control {

// Of a lane.
inline constexpr std::size_t kMostRails = 8;

struct Peer {
  Member member;
  std::uint32_t uid = 0;
  std::uint64_t reach = 0;          // see Host::reach; once all have met, as the meeting place found it
  std::uint64_t process_space = 0;  // see Host::process_space
  std::uint32_t transports = 0;     // it may use (transports/registry.h)
  Address unix_address;
  Address tcp_address;  // empty unless some pair needs it
  // At its other interfaces (ANELLO_INTERFACES), where lanes have further rails.
  std::vector<Address> rails;
  int leader = -1;  // the rank that makes the arena of its host; -1: it shares memory with no rank
};

// "rank 2 (host alpha, pid 4711)"
std::string describe(const Member& member);

void put_peer(Writer& writer, const Peer& peer);
Peer take_peer(Reader& reader);
void put_address(Writer& writer, const Address& address);
Address take_address(Reader& reader);
// The addresses at which a rank listens: the tcp_address, then the rails.
void put_listening(Writer& writer, const Peer& peer);
void take_listening(Reader& reader, Peer& peer);
void put_shared(Writer& writer, const Shared& shared);
Shared take_shared(Reader& reader);

// Checks that the peers' claims about their places are possible, for the rank that has this arena and seat (seat -1:
// none); the local ranks `here` are threads of this process. Throws Error (ANELLO_ERR_CORRUPT). No side effects.
struct Seats {
  std::uint64_t machine = 0;
  std::uint64_t process = 0;
  int ranks = 0;
  std::bitset<memory::kMaxLocalRanks> here;
};
void check_places(const std::vector<Peer>& peers, int rank, const Seats& seats);

// The transports that join a pair, the best of which has its lane; 0: none.
std::uint32_t transports_between(const Peer& a, const Peer& b);
// Why there is none, for people.
std::string why_no_transport(const Peer& a, const Peer& b);
// The number of connections of a lane over a transport that uses several.
std::size_t rails_between(const Peer& a, const Peer& b);
// The addresses at which a can reach b without the pair's transport, best first.
std::vector<Address> ways_to(const Peer& a, const Peer& b);

}  // namespace anello::control
