#include "tune/dense.h"

#include "tune/choice.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace anello::tune {

std::vector<Verdict> verdicts(const std::vector<Measured>& sizes,
                              const std::function<bool(const Measured&, const Way&)>& own) {
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

std::vector<std::size_t> doubtful(const std::vector<Verdict>& verdicts) {
  std::set<std::size_t> sizes;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].is_right()) continue;
    sizes.insert(verdicts[i].bytes);
    if (i + 1 < verdicts.size()) sizes.insert(verdicts[i + 1].bytes);
  }
  return {sizes.begin(), sizes.end()};
}

std::vector<Verdict> after_second_look(std::vector<Verdict> first, const std::vector<Verdict>& second) {
  for (Verdict& each : first) {
    const auto again =
        std::find_if(second.begin(), second.end(), [&](const Verdict& other) { return other.bytes == each.bytes; });
    if (each.is_right() || again == second.end()) continue;
    if (each.over_next > 0 && again->over_next == 0) continue;  // there was no time for the next one
    each = *again;
    each.was_wrong = true;
  }
  return first;
}

std::string print(const std::vector<Verdict>& verdicts) {
  std::string all = "       bytes   library us  over next  over best  best way\n";
  char line[160];
  for (const Verdict& each : verdicts) {
    char next[32] = "-";
    if (each.over_next > 0) std::snprintf(next, sizeof next, "%.2f", each.over_next);
    std::snprintf(line, sizeof line, "%12zu %12.2f %10s %10.2f  %s%s%s%s\n", each.bytes, each.us, next, each.over_best,
                  each.best.name().c_str(), each.over_next > kTolerance ? "   SLOWER THAN THE NEXT SIZE" : "",
                  each.over_best > kTolerance ? "   SLOWER THAN THE BEST WAY" : "",
                  each.was_wrong && each.is_right() ? "   (slower in a first look)" : "");
    all += line;
  }
  return all;
}

}  // namespace anello::tune
