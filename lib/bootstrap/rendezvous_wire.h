#pragma once
// What a rank and the meeting place say to each other. The numbers are the wire's.
//
//   rank                                 meeting place
//   hello (who I am)              ->
//                                 <-     peers (who all are), session (key, settings)
//   arrived (at my host's leader) ->                                                       } only ranks that
//                                 <-     form (to leaders: who arrived)                    } may share an arena
//   mapped (arena, my index)      ->                                                       }
//                                 <-     listen (to ranks that some pair needs tcp for)
//   listening (address)           ->
//                                 <-     peers (all is known now), final
//   ready (linked to rank 0)      ->
//                                 <-     go
// refuse from there, or give_up from a rank, ends it for all, at any time.
#include <cstdint>

namespace anello::bootstrap {

enum RendezvousKind : std::uint16_t {
  kHello = 1,      // size, time left and allowed, Peer, Shared
  kRefuse = 2,     // Error
  kPeers = 3,      // count, Peer..
  kSession = 4,    // 32 random bytes, Shared
  kArrived = 5,    // ok, why not
  kForm = 6,       // count, ranks
  kMapped = 7,     // ok, nonce, index, why not
  kListen = 8,
  kListening = 9,  // Address
  kFinal = 10,
  kReady = 11,
  kGo = 12,
  kGiveUp = 13,    // Error
};

}  // namespace anello::bootstrap
