#include "schedule/access_map.h"

namespace anello::schedule {

AccessMap::Map::iterator AccessMap::first_overlap(std::size_t begin) {
  auto at = intervals_.upper_bound(begin);
  if (at != intervals_.begin() && std::prev(at)->second.end > begin) --at;
  return at;
}

void AccessMap::before_read(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& steps) {
  for (auto at = first_overlap(begin); at != intervals_.end() && at->first < end; ++at)
    if (at->second.writer != kNobody) steps.push_back(at->second.writer);
}

void AccessMap::before_write(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& steps) {
  for (auto at = first_overlap(begin); at != intervals_.end() && at->first < end; ++at) {
    const Interval& interval = at->second;
    if (!interval.readers.empty())
      steps.insert(steps.end(), interval.readers.begin(), interval.readers.end());
    else if (interval.writer != kNobody)
      steps.push_back(interval.writer);
  }
}

void AccessMap::cut(std::size_t at) {
  const auto interval = first_overlap(at);
  if (interval == intervals_.end() || interval->first >= at) return;
  Interval rest = interval->second;
  interval->second.end = at;
  intervals_.emplace_hint(std::next(interval), at, std::move(rest));
}

void AccessMap::read(std::size_t begin, std::size_t end, std::uint32_t step) {
  cut(begin);
  cut(end);
  std::size_t covered = begin;
  for (auto at = intervals_.lower_bound(begin); covered < end; ++at) {
    if (at == intervals_.end() || at->first > covered) {  // no step has accessed it yet
      const std::size_t gap_end = at == intervals_.end() || at->first > end ? end : at->first;
      at = intervals_.emplace_hint(at, covered, Interval{gap_end, kNobody, {}});
    }
    at->second.readers.push_back(step);
    covered = at->second.end;
  }
}

void AccessMap::write(std::size_t begin, std::size_t end, std::uint32_t step) {
  cut(begin);
  cut(end);
  auto at = intervals_.lower_bound(begin);
  while (at != intervals_.end() && at->first < end) at = intervals_.erase(at);
  intervals_.emplace_hint(at, begin, Interval{end, step, {}});
}

}  // namespace anello::schedule
