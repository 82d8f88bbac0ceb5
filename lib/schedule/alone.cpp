#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {

Schedule alone(const Call& call, const Topology& topology, int rank, std::size_t) {
  Builder steps("alone", call, topology, rank);
  const Part all{0, result_count(call, topology.size, rank)};
  if (call.finish)
    steps.finish(output(all), input(all));
  else
    steps.copy(output(all), input(all));
  return std::move(steps).build();
}

}  // namespace anello::schedule
