#pragma once
// Statistics of a set of times.
#include <vector>

namespace perf {

// Both use the nearest rank and work on a copy; 0 for no times. share is within 0..1.
double quantile(std::vector<double> values, double share);
// Standard deviation over mean; 0 for fewer than two.
double variation(const std::vector<double>& values);
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace perf
