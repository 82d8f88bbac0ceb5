#pragma once
// The time of a call of any number of ranks and steps, from the plans of as many ranks as can be simulated.
#include "schedule/catalog.h"
#include "schedule/parts.h"
#include "schedule/predict.h"

#include <cstddef>
#include <functional>

namespace anello::schedule {

enum class From {
  all_ranks,
  one_host,     // whose ranks do what all do: predict_in_step()
  fewer_ranks,  // see estimate()
  nothing
};

struct Estimate {
  double seconds = -1;
  From from = From::nothing;
  int ranks = 0;  // whose plans were simulated; for fewer_ranks, the most
};

// How many steps may be simulated: of all ranks' plans, and of fewer ranks, which is done three times.
struct Limits {
  std::size_t steps = 4'000'000;
  std::size_t steps_of_fewer = 1'500'000;
  bool one_host = true;  // beyond steps, one host's ranks may stand for all
};

// Beyond the limits, the time of P ranks is a + b log2(P) + c P: the rounds of a tree grow with the logarithm, those of
// a ring with the ranks themselves. a, b and c come from three numbers of ranks, each half of the one before; the
// largest is as large as the limits allow. look gets each plan of the call that is made on the way, so that the caller
// can sum them up; these are all ranks' plans or some of them, and may come twice. counts: of a form whose parts differ
// in count. Fewer ranks stand for all only if those are equal.
Estimate estimate(const Call& call, const Topology& topology, const Algorithm& algorithm, std::size_t chunk,
                  const Cost& cost, const std::function<void(int rank, const Schedule&)>& look,
                  const Limits& limits = {}, const Counts& counts = {});

}  // namespace anello::schedule
