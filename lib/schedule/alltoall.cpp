#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {
namespace {

// The number of parts that are set aside at a time if the result replaces the input.
constexpr std::size_t kSlots = 4;

}  // namespace

// In step d, a rank exchanges parts with the ranks d above and d below it, so that few ranks send to one rank at a
// time.
// In place, a part is set aside before its replacement may arrive: otherwise two ranks would each wait for the other to
// receive its part first.
Schedule pairwise_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const int size = topology.size;
  const Split split(call.count * static_cast<std::size_t>(size), size, chunk);
  Builder steps("pairwise", call, topology, rank);

  std::size_t turn = 0;
  const auto going = [&](Part part) {
    if (!call.in_place) return input(part);
    const Slice aside{Buffer::scratch, turn++ % kSlots * split.longest(), part.count};
    steps.copy(aside, input(part));
    return aside;
  };
  for (int d = 1; 2 * d <= size; ++d) {
    const int above = wrap(rank + d, size);
    const int below = wrap(rank - d, size);
    for (std::size_t c = 0; c < split.chunks(); ++c) {
      const Slice up = going(split.chunk(above, c));
      if (above == below) {
        steps.send(above, up);
        steps.recv(below, output(split.chunk(below, c)));
        continue;
      }
      const Slice down = going(split.chunk(below, c));
      steps.send(above, up);
      steps.recv(below, output(split.chunk(below, c)));
      steps.send(below, down);
      steps.recv(above, output(split.chunk(above, c)));
    }
  }
  steps.copy(output(split.block(rank)), input(split.block(rank)));
  return std::move(steps).build();
}

}  // namespace anello::schedule
