#pragma once
// The frames between a rank and the meeting place. Their numbers are part of the protocol.
//
//   rank                                 meeting place
//   hello (who I am)              ->
//                                 <-     peers (who all are), session (key, settings)
//   arrived (at my host's leader) ->                                                       } only ranks that
//                                 <-     form (to leaders: who arrived)                    } may share an arena
//   mapped (arena, my index)      ->                                                       }
//                                 <-     listen (to ranks that some pair needs tcp for)
//   listening (addresses)         ->
//                                 <-     peers (all data is known), final
//   ready (linked to rank 0)      ->
//                                 <-     go
// At any time, refuse from the meeting place, or give_up from a rank, ends it for all ranks.
#include "control/peer.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::bootstrap {

enum RendezvousKind : std::uint16_t {
  kHello = 1,    // size, time left and allowed, Peer, Shared
  kRefuse = 2,   // Error
  kPeers = 3,    // count, Peer..
  kSession = 4,  // 32 random bytes, Shared
  kArrived = 5,  // ok, why not
  kForm = 6,     // count, ranks
  kMapped = 7,   // ok, nonce, index, why not
  kListen = 8,
  kListening = 9,  // Address, count, Address..
  kFinal = 10,
  kReady = 11,
  kGo = 12,
  kGiveUp = 13,  // Error
};

// Parse the bodies of these frames and bound every number. All throw Error (ANELLO_ERR_CORRUPT) and have no side
// effects. size is that of the world.
struct Hello {
  int size;
  std::int64_t left_ms, allowed_ms;
  control::Peer peer;
  control::Shared shared;
};
struct Session {
  std::array<std::byte, 32> random;
  control::Shared shared;
};
struct Done {
  bool ok;
  std::string why_not;
};
struct Mapped {
  Done done;
  std::uint64_t machine;
  int index;
};
Hello take_hello(control::Reader& reader);
// Appends the peers of one frame to those of the frames before it.
void take_peers(control::Reader& reader, int size, std::vector<control::Peer>& peers);
Session take_session(control::Reader& reader);
std::vector<int> take_form(control::Reader& reader, int size);
Done take_done(control::Reader& reader);
Mapped take_mapped(control::Reader& reader);

}  // namespace anello::bootstrap
