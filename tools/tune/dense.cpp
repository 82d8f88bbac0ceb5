#include "tune/dense.h"

#include "tune/choice.h"

#include <cstdio>

namespace anello::tune {

std::vector<Verdict> verdicts(const std::vector<Measured>& sizes, const std::function<bool(const Measured&, const Way&)>& own) {
  std::vector<Verdict> found;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<double>& library = sizes[i].times.at({});
    Verdict verdict;
    verdict.bytes = sizes[i].bytes;
    verdict.us = verdict.best_us = median(library);
    if (i + 1 < sizes.size()) verdict.over_next = ratio(library, sizes[i + 1].times.at({}));
    for (const auto& [way, times] : sizes[i].times) {
      const double over = ratio(library, times);
      if (over <= verdict.over_best || (own && own(sizes[i], way))) continue;
      verdict.best = way;
      verdict.best_us = median(times);
      verdict.over_best = over;
    }
    found.push_back(verdict);
  }
  return found;
}

std::string print(const std::vector<Verdict>& verdicts) {
  std::string all = "       bytes   library us  over next  over best  best way\n";
  char line[160];
  for (const Verdict& each : verdicts) {
    char next[32] = "-";
    if (each.over_next > 0) std::snprintf(next, sizeof next, "%.2f", each.over_next);
    std::snprintf(line, sizeof line, "%12zu %12.2f %10s %10.2f  %s%s%s\n", each.bytes, each.us, next, each.over_best,
                  each.best.name().c_str(), each.over_next > kTolerance ? "   SLOWER THAN THE NEXT SIZE" : "",
                  each.over_best > kTolerance ? "   SLOWER THAN THE BEST WAY" : "");
    all += line;
  }
  return all;
}

}  // namespace anello::tune
