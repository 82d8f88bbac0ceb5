#include "top/rows.h"

#include "jobs/waiting.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace top {
namespace {

using anello::recorder::Total;

Total sum_of(const anello::recorder::Snapshot& shown) {
  Total sum;
  for (const auto& [kind, total] : shown.totals) sum = {sum.calls + total.calls, sum.bytes + total.bytes};
  return sum;
}

bool is_in_flight(const anello::recorder::Snapshot& shown) {
  const auto any = [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& each) { return !each.ended; });
  };
  return any(shown.collectives) || any(shown.sent) || any(shown.received);
}

std::string hexadecimal(const char* format, std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, format, static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace

std::vector<Row> rows_of(const jobs::Look& before, const jobs::Look& now) {
  const double seconds = double(std::max<std::int64_t>(now.at_ns - before.at_ns, 1)) / 1e9;
  std::vector<anello::recorder::Snapshot> settled = jobs::settled(before, now);
  std::map<std::uint64_t, std::vector<const anello::recorder::Snapshot*>> jobs;
  for (const auto& each : settled) jobs[each.who.job].push_back(&each);
  std::vector<jobs::Edge> edges;
  std::vector<Row> rows;
  for (const auto& [job, snapshots] : jobs) {
    const jobs::Waiting waiting(snapshots);
    edges.insert(edges.end(), waiting.edges().begin(), waiting.edges().end());
  }
  for (std::size_t i = 0; i < settled.size(); ++i) {
    Row row;
    row.pid = now.ranks[i].pid;
    row.is_stopped = now.ranks[i].is_stopped;
    row.totals = settled[i].totals;
    row.waits = is_in_flight(settled[i]);
    std::set<int> waits_for;
    for (const jobs::Edge& edge : edges)
      if (edge.shown == &settled[i]) waits_for.insert(edge.to);
    row.waits_for.assign(waits_for.begin(), waits_for.end());
    const auto earlier = std::find_if(before.ranks.begin(), before.ranks.end(), [&](const jobs::Shown& each) {
      return each.pid == row.pid && each.place == now.ranks[i].place;
    });
    if (earlier != before.ranks.end()) {
      const Total was = sum_of(earlier->snapshot), is = sum_of(settled[i]);
      // They shrink where another communicator has taken the place.
      if (is.calls >= was.calls) row.calls_per_s = double(is.calls - was.calls) / seconds;
      if (is.bytes >= was.bytes) row.bytes_per_s = double(is.bytes - was.bytes) / seconds;
    }
    rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].shown = std::move(settled[i]);
  return rows;
}

std::string job_name(const anello::recorder::Identity& who) { return hexadecimal("%016llx", who.job); }
std::string communicator_name(const anello::recorder::Identity& who) { return hexadecimal("%llx", who.communicator); }

}  // namespace top
