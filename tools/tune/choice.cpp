#include "tune/choice.h"

#include "base/text.h"
#include "schedule/shape.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <tuple>

namespace anello::tune {
namespace {

// A way must save this much to replace the library's, and save it in this share of the rounds.
constexpr double kWorthIt = 0.92;
constexpr double kOfRounds = 0.75;
// A way that is at most this much slower than the best counts as equally good.
constexpr double kAlike = 1.05;

const Way kLibrary{};

bool is_steady(const std::vector<double>& times, const std::vector<double>& library) {
  const std::size_t rounds = std::min(times.size(), library.size());
  std::size_t faster = 0;
  for (std::size_t i = 0; i < rounds; ++i) faster += times[i] < library[i] ? 1 : 0;
  return double(faster) >= kOfRounds * double(rounds);
}

}  // namespace

// In memory that ranks may be able to read, both of its possible choices must be that way.
bool is_the_librarys(const Job& job, const Measured& measured, const Way& way, const schedule::Wish& library) {
  if (way == kLibrary || way.chunk_bytes != 0) return way == kLibrary;
  schedule::Call call = call_of(measured.collective, measured.bytes, job.ranks);
  const schedule::Wish named{way.algorithm};
  for (const schedule::Reach reach : {job.shared ? job.reach() : schedule::Reach::none, job.reach()}) {
    call.reach = reach;
    const schedule::Choice own = schedule::choose(call, job.topology(), library),
                           other = schedule::choose(call, job.topology(), named);
    if (own.algorithm->name != way.algorithm || own.chunk != other.chunk) return false;
  }
  return true;
}

namespace {

// The ways that are worth it, and the library's own, by the ratio to the library's time.
std::map<Way, double> worthy(const Job& job, const Measured& measured) {
  const std::vector<double>& library = measured.times.at(kLibrary);
  std::map<Way, double> found{{kLibrary, 1.0}};
  for (const auto& [way, times] : measured.times) {
    const double by = ratio(times, library);
    if (!is_the_librarys(job, measured, way) && by <= kWorthIt && is_steady(times, library)) found[way] = by;
  }
  return found;
}

std::pair<Way, double> best_of(const std::map<Way, double>& ways, const Way& before) {
  const auto best =
      std::min_element(ways.begin(), ways.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto kept = ways.find(before);
  if (kept != ways.end() && kept->second <= best->second * kAlike) return *kept;
  return *best;
}

std::size_t between(std::size_t below, std::size_t above) {
  return std::size_t(std::sqrt(double(below)) * std::sqrt(double(above)));
}

struct Ranks {
  int from;
  int up_to;
};

Ranks near(int ranks, const std::set<int>& measured) {
  const auto at = measured.find(ranks);
  Ranks found{ranks, ranks};
  if (at != measured.begin()) found.from = (*std::prev(at) + ranks + 1) / 2;
  if (std::next(at) != measured.end())
    found.up_to = (ranks + *std::next(at) + 1) / 2 - 1;
  else
    found.up_to = ranks + (ranks - found.from);
  return found;
}

schedule::Rule rule_for(const Job& job, const schedule::Call& call, Ranks ranks, const Segment& segment,
                        const Way& way) {
  schedule::Rule rule;
  rule.collectives = call.collective;
  rule.where = job.network ? schedule::Where::network : schedule::Where::memory;
  rule.from_bytes = segment.from;
  rule.up_to_bytes = segment.up_to;
  rule.from_ranks = ranks.from;
  rule.up_to_ranks = ranks.up_to;
  const schedule::Algorithm* const row = schedule::find(call.collective, way.algorithm);
  rule.algorithm = row->name;
  rule.chunk_bytes = way.chunk_bytes;
  // Ranks store into memory of anello_mem_alloc; they can at most read other memory.
  schedule::Call apart = call;
  rule.reach = job.shared                         ? schedule::Reach::store
               : row->fits(apart, job.topology()) ? schedule::Reach::none
                                                  : schedule::Reach::read;
  return rule;
}

std::string remark_on(const Segment& segment, const std::string& library) {
  char range[64];
  std::snprintf(range, sizeof range, segment.most - segment.least < 0.01 ? "%.2f" : "%.2f to %.2f", segment.least,
                segment.most);
  return text(range, " of the time by ", library);
}

// The library's choice at each measured size, separately for calls in memory that all ranks store into, because lines
// for any memory would also apply to them.
void keep_library(std::vector<Line>& into, const Job& job, const Segment& segment, const std::string& collective,
                  Ranks ranks, const std::vector<Measured>& sizes) {
  Segment piece = segment;
  std::string_view last;
  std::size_t before = 0;
  const auto end_piece = [&](std::size_t at) {
    piece.up_to = at;
    if (!last.empty() && piece.from <= piece.up_to)
      into.push_back({rule_for(job, call_of(collective, before, job.ranks), ranks, piece, {std::string(last), 0}), ""});
    piece.from = at == SIZE_MAX ? at : at + 1;
  };
  for (const Measured& each : sizes) {
    if (each.bytes < segment.from || each.bytes > segment.up_to) continue;
    schedule::Call call = call_of(collective, each.bytes, job.ranks);
    call.reach = job.reach();
    const std::string_view now = schedule::choose(call, job.topology()).algorithm->name;
    if (!last.empty() && now != last) end_piece(between(before, each.bytes));
    last = now;
    before = each.bytes;
  }
  end_piece(segment.up_to);
}

std::string library_at(const Job& job, const std::string& collective, const Segment& segment,
                       const std::vector<Measured>& sizes) {
  std::string names;
  for (const Measured& each : sizes) {
    if (each.bytes < segment.from || each.bytes > segment.up_to) continue;
    schedule::Call call = call_of(collective, each.bytes, job.ranks);
    // It is not known here whether ranks can read memory from malloc.
    for (const schedule::Reach reach : {job.shared ? job.reach() : schedule::Reach::none, job.reach()}) {
      call.reach = reach;
      const std::string name(schedule::choose(call, job.topology()).algorithm->name);
      if (names.find(name) == std::string::npos) names += text(names.empty() ? "" : " or ", name);
    }
  }
  return names;
}

}  // namespace

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(middle), values.end());
  return values[middle];
}

double ratio(const std::vector<double>& times, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(times.size(), others.size()); ++i) ratios.push_back(times[i] / others[i]);
  return median(std::move(ratios));
}

std::vector<Segment> segments(const Job& job, const std::vector<Measured>& sizes) {
  std::vector<Segment> found;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [way, by] = best_of(worthy(job, sizes[i]), found.empty() ? kLibrary : found.back().way);
    if (found.empty() || found.back().way != way) {
      const std::size_t edge = i == 0 ? 0 : between(sizes[i - 1].bytes, sizes[i].bytes);
      if (!found.empty()) found.back().up_to = edge;
      found.push_back({edge + 1, SIZE_MAX, way, by, by});
    }
    found.back().least = std::min(found.back().least, by);
    found.back().most = std::max(found.back().most, by);
  }
  return found;
}

std::vector<Line> lines(const std::vector<Result>& results) {
  struct Group {
    const Job* job;
    std::string collective;
    std::vector<Measured> sizes;
    std::vector<Segment> segments;
  };
  std::vector<Group> groups;
  std::set<int> ranks;
  for (const Result& result : results) {
    ranks.insert(result.job.ranks);
    for (const Measured& each : result.measured) {
      const bool starts =
          groups.empty() || groups.back().job != &result.job || groups.back().collective != each.collective;
      if (starts) groups.push_back({&result.job, each.collective, {}, {}});
      groups.back().sizes.push_back(each);
    }
  }
  const auto changes = [](const Group& group) {
    return std::any_of(group.segments.begin(), group.segments.end(),
                       [](const Segment& s) { return s.way != kLibrary; });
  };
  for (Group& group : groups) group.segments = segments(*group.job, group.sizes);
  // A line for memory that ranks store into comes before one for any memory, which would also apply there.
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tuple(a.collective, a.job->network, a.job->ranks, !a.job->shared) <
           std::tuple(b.collective, b.job->network, b.job->ranks, !b.job->shared);
  });
  std::vector<Line> all;
  for (const Group& group : groups) {
    const bool spelled_out = group.job->shared && std::any_of(groups.begin(), groups.end(), [&](const Group& other) {
                               return other.collective == group.collective && other.job->ranks == group.job->ranks &&
                                      !other.job->network && !other.job->shared && changes(other);
                             });
    const Ranks near_these = near(group.job->ranks, ranks);
    for (const Segment& segment : group.segments) {
      if (segment.way != kLibrary) {
        const schedule::Call call = call_of(group.collective, segment.from, group.job->ranks);
        all.push_back({rule_for(*group.job, call, near_these, segment, segment.way),
                       remark_on(segment, library_at(*group.job, group.collective, segment, group.sizes))});
      } else if (spelled_out) {
        keep_library(all, *group.job, segment, group.collective, near_these, group.sizes);
      }
    }
  }
  return all;
}

std::string table_of(const std::vector<Line>& lines, const std::string& machine, const std::string& remark) {
  std::string all = print(schedule::Tuning{machine, {}, ""}) + "# " + remark + "\n";
  for (const Line& line : lines) all += print(line.rule) + (line.remark.empty() ? "" : "   # " + line.remark) + "\n";
  return all;
}

}  // namespace anello::tune
