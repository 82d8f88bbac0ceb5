#include "perf/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace perf {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto position = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(position, 1, values.size()) - 1];
}

}  // namespace perf
