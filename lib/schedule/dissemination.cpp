#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

// In round k, a rank sends a token to the rank 2^k above and gets one from the rank 2^k below. It sends its token of
// round k only once it has those of all earlier rounds. The contents of tokens do not matter; only the slices carry the
// order:
//
//   scratch   0 1 2 3 4 5 ..
//   round 0   s s r r             s: sent, r: received
//   round 1     s s r r           the sent tokens were written by the previous round,
//   round 2       s s r r         the received tokens overwrite half of the previous ones, so they come later.
//
// No round overwrites the tokens that it sends: otherwise every rank of the ring would wait for the next one to receive
// them first.
Schedule dissemination(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("dissemination", call, topology, rank);
  std::size_t round = 0;
  for (int distance = 1; distance < topology.size; distance *= 2, ++round) {
    steps.send(wrap(rank + distance, topology.size), Slice{Buffer::scratch, round, 2});
    steps.recv(wrap(rank - distance, topology.size), Slice{Buffer::scratch, round + 2, 2});
  }
  return std::move(steps).build();
}

}  // namespace anello::schedule
