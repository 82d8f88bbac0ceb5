// What a rank and the meeting place say to each other, and what a rank takes for its place among the others.
#include "base/error.h"
#include "bootstrap/rendezvous_wire.h"
#include "control/peer.h"
#include "fuzz/input.h"

#include <cstdlib>
#include <vector>

using namespace anello;
using namespace anello::bootstrap;
using namespace anello::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  fuzz::Input input(bytes, count);
  const int size = 1 + input.below(300);
  const int which = input.below(8);
  Seats seats;
  seats.ranks = input.below(memory::kMaxLocalRanks + 1);
  seats.machine = input.take<std::uint8_t>();
  seats.process = input.take<std::uint8_t>();
  for (int i = 0; i < seats.ranks; i += 1 + input.below(4)) seats.here.set(std::size_t(i));
  Reader reader(input.text());
  try {
    switch (which) {
      case 0: {
        const Hello hello = take_hello(reader);
        if (hello.peer.member.rank < 0 || hello.peer.member.rank >= hello.size || hello.left_ms < 0 ||
            hello.allowed_ms < 1)
          std::abort();
        break;
      }
      case 1: {
        std::vector<Peer> peers;
        take_peers(reader, size, peers);
        if (int(peers.size()) > size) std::abort();
        for (const Peer& peer : peers) {
          if (peer.leader >= size || peer.member.local_index >= memory::kMaxLocalRanks) std::abort();
        }
        if (int(peers.size()) < size) break;
        check_places(peers, 0, seats);
        const Member& self = peers[0].member;
        for (const Peer& peer : peers) {
          if (self.local_index >= 0 && peer.member.machine == self.machine && peer.member.local_index >= seats.ranks)
            std::abort();
          transports_between(peers[0], peer);
        }
        break;
      }
      case 2: take_session(reader); break;
      case 3: {
        for (const int rank : take_form(reader, size)) {
          if (rank < 0 || rank >= size) std::abort();
        }
        break;
      }
      case 4: take_done(reader); break;
      case 5: {
        if (take_mapped(reader).index >= memory::kMaxLocalRanks) std::abort();
        break;
      }
      case 6: take_address(reader); break;
      default: take_error(reader); break;
    }
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_CORRUPT) std::abort();
  }
  return 0;
}
