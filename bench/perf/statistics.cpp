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

double variation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean > 0 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean : 0;
}

}  // namespace perf
