#pragma once
// Wraps a transport, or one end of a lane, and makes it fail as planned: the same plan fails in the same place every
// time. A fault of a direction counts its bytes, headers included, as this end sends or receives them. Wrap one rank's
// end; the other end sees a failing peer (a cut closes the inner lane).
#include "transports/faulty_memory.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>

namespace anello::testing {

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct FaultPlan {
  // Every offered and every arrived frame waits for this many calls before any of its bytes move.
  int delay_polls = 0;
  // At most this many bytes move per call, rounded up to 16 for views (their rule). 0: no limit.
  std::size_t short_bytes = 0;
  // The lane breaks at this byte of a direction: receiving delivers exactly this many bytes, and sending the whole
  // frames before it. Then failure() is ANELLO_ERR_PEER_LOST here, and the inner lane is closed.
  std::uint64_t cut_sent_at = kNever;
  std::uint64_t cut_received_at = kNever;
  // The lowest bit of this received byte is flipped. In a header's `bytes` this is ANELLO_ERR_CORRUPT, because the rest
  // of the stream makes no sense.
  std::uint64_t flip_received_at = kNever;
  // From this byte on no byte moves in this direction, and no call reports it.
  std::uint64_t stall_sent_at = kNever;
  std::uint64_t stall_received_at = kNever;

  // One fault that the seed chooses, within the first `bytes` of a direction.
  static FaultPlan random(std::uint64_t seed, std::uint64_t bytes);
};

std::unique_ptr<transport::Endpoint> make_faulty(std::unique_ptr<transport::Endpoint> inner, int peer,
                                                 const FaultPlan& plan);

// plan_of(peer) returns the plan for the lane to peer (a world rank); `faults` is the plan for its remote memory.
std::unique_ptr<transport::Transport> make_faulty(std::unique_ptr<transport::Transport> inner,
                                                  std::function<FaultPlan(int peer)> plan_of,
                                                  const MemoryFaults& faults = {});

}  // namespace anello::testing
