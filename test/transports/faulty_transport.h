#pragma once
// Wraps a transport, or one end of a lane, and makes it fail as planned: the same plan fails in the same place every
// time. Faults of a direction count its bytes, headers included, as this end sends or receives them. Wrap one rank's
// end; the peer's sees what a peer sees (a cut closes the inner lane).
#include "transports/faulty_memory.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>

namespace anello::testing {

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct FaultPlan {
  // Every frame offered and every one arrived waits for this many calls before anything of it moves.
  int delay_polls = 0;
  // At most this many bytes move per call, rounded up to 16 for views (their rule). 0: no limit.
  std::size_t short_bytes = 0;
  // The lane breaks at that byte of a direction: receiving delivers exactly that many, sending the whole frames before
  // it. Then failure() is ANELLO_ERR_PEER_LOST here, and the inner lane is closed.
  std::uint64_t cut_sent_at = kNever;
  std::uint64_t cut_received_at = kNever;
  // That received byte has its lowest bit turned over. In a header's `bytes` this is ANELLO_ERR_CORRUPT, since no
  // stream makes sense after it.
  std::uint64_t flip_received_at = kNever;
  // From that byte on nothing moves in this direction any more, and nothing says so.
  std::uint64_t stall_sent_at = kNever;
  std::uint64_t stall_received_at = kNever;

  // One fault of the given seed's choosing, within the first `bytes` of a direction.
  static FaultPlan random(std::uint64_t seed, std::uint64_t bytes);
};

std::unique_ptr<transport::Endpoint> make_faulty(std::unique_ptr<transport::Endpoint> inner, int peer,
                                                 const FaultPlan& plan);

// plan_of(peer) says what happens on the lane to peer (a world rank), faults what happens to transfers of its remote
// memory.
std::unique_ptr<transport::Transport> make_faulty(std::unique_ptr<transport::Transport> inner,
                                                  std::function<FaultPlan(int peer)> plan_of,
                                                  const MemoryFaults& faults = {});

}  // namespace anello::testing
