#include "top/reports.h"

#include "base/error.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <sstream>

namespace top {
namespace {

using anello::text;
using json = nlohmann::ordered_json;
using anello::recorder::Snapshot;

// "1.2G", of powers of 1000.
std::string short_number(double number) {
  static const char kUnits[] = " KMGTPE";
  int unit = 0;
  while (number >= 999.5 && unit < 6) {
    number /= 1000;
    ++unit;
  }
  char out[32];
  std::snprintf(out, sizeof out, number >= 99.5 || unit == 0 ? "%.0f" : number >= 9.95 ? "%.1f" : "%.2f", number);
  return unit == 0 ? out : text(out, kUnits[unit]);
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i)
    list += text(i == 0 ? "" : ",", ranks[i] < 0 ? std::string("?") : std::to_string(ranks[i]));
  return ranks.size() > kMost ? text(list, ",+", ranks.size() - kMost) : list;
}

std::string message_text(const Snapshot::Message& message, const char* kind) {
  return text(kind, message.message.peer < 0 ? std::string("any") : std::to_string(message.message.peer), " (",
              message.message.bytes, " bytes, tag ", message.message.tag, ")");
}

// The operation in flight, or else the last collective, or message.
struct Now {
  std::string call;
  std::string number;
};
Now now_of(const Snapshot& shown) {
  const auto of = [](const Snapshot::Collective& each) {
    return Now{each.call.describe(), std::to_string(each.call.sequence)};
  };
  if (const auto* const in = shown.in_flight()) return of(*in);
  for (const auto& [list, kind] : {std::pair{&shown.received, "recv from "}, {&shown.sent, "send to "}}) {
    for (const Snapshot::Message& each : *list)
      if (!each.ended) return {message_text(each, kind), std::to_string(each.number)};
  }
  if (!shown.collectives.empty()) return of(shown.collectives.back());
  if (!shown.received.empty())
    return {message_text(shown.received.back(), "recv from "), std::to_string(shown.received.back().number)};
  if (!shown.sent.empty())
    return {message_text(shown.sent.back(), "send to "), std::to_string(shown.sent.back().number)};
  return {"-", "-"};
}

const char* state_of(const Row& row) {
  return row.is_stopped        ? "stopped"
         : row.shown.error     ? "failed"
         : row.waits           ? "waits"
         : row.calls_per_s > 0 ? "works"
                               : "idle";
}

bool is_shown(const Row& row, const std::vector<Row>& rows, bool all) {
  if (all || row.calls_per_s > 0 || row.waits || row.shown.error) return true;
  const auto first = std::find_if(rows.begin(), rows.end(), [&](const Row& each) {
    return each.shown.who.job == row.shown.who.job && each.shown.who.world_rank == row.shown.who.world_rank &&
           each.pid == row.pid;
  });
  return &*first == &row;
}

std::string labels_of(const Row& row) {
  const auto& who = row.shown.who;
  std::string host;
  for (const char each : std::string(who.host)) {
    if (each == '"' || each == '\\') host += '\\';
    host += each == '\n' ? ' ' : each;
  }
  return text("job=\"", job_name(row.shown.who), "\",rank=\"", who.world_rank, "\",communicator=\"",
              communicator_name(row.shown.who), "\",host=\"", host, "\",pid=\"", row.pid, "\"");
}

}  // namespace

std::string as_table(const std::vector<Row>& rows, bool all) {
  const std::vector<std::string> heads{"RANK",    "PID",     "COMM",      "STATE", "SEQ",
                                       "CALLS/S", "BYTES/S", "WAITS FOR", "CALL"};
  std::ostringstream out;
  std::string job;
  for (std::size_t at = 0; at < rows.size();) {
    std::size_t end = at;
    while (end < rows.size() && rows[end].shown.who.job == rows[at].shown.who.job) ++end;
    std::vector<std::vector<std::string>> lines{heads};
    std::size_t ranks = 0;
    int last = -1;
    for (; at < end; ++at) {
      const Row& row = rows[at];
      if (row.shown.who.world_rank != std::exchange(last, row.shown.who.world_rank)) ++ranks;
      if (!is_shown(row, rows, all)) continue;
      const Now now = now_of(row.shown);
      lines.push_back({std::to_string(row.shown.who.world_rank), std::to_string(row.pid),
                       communicator_name(row.shown.who), state_of(row), now.number, short_number(row.calls_per_s),
                       short_number(row.bytes_per_s), row.waits_for.empty() ? "-" : list_of(row.waits_for), now.call});
    }
    const auto& who = rows[end - 1].shown.who;
    out << (job.empty() ? "" : "\n") << "job " << job_name(who) << ": " << ranks << " of " << who.world_size
        << " ranks are on this host\n";
    job = job_name(who);
    std::vector<std::size_t> widths(heads.size(), 0);
    for (const auto& line : lines)
      for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    for (const auto& line : lines) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        const bool to_the_right = i < 3 || (i > 3 && i < 7);
        const std::string gap(widths[i] - line[i].size(), ' ');
        out << (i == 0 ? "" : "  ") << (to_the_right ? gap + line[i] : i + 1 == line.size() ? line[i] : line[i] + gap);
      }
      out << '\n';
    }
  }
  return out.str();
}

std::string as_json(const std::vector<Row>& rows) {
  json list = json::array();
  for (const Row& row : rows) {
    const auto& who = row.shown.who;
    json& out = list.emplace_back();
    out = {{"job", job_name(row.shown.who)},
           {"rank", who.world_rank},
           {"size", who.world_size},
           {"host", who.host},
           {"pid", row.pid},
           {"communicator", communicator_name(row.shown.who)},
           {"communicator_rank", who.rank},
           {"communicator_size", who.size},
           {"state", state_of(row)}};
    out["operation"] = nullptr;
    const auto* const in = row.shown.in_flight();
    const auto* const last = in != nullptr                   ? in
                             : row.shown.collectives.empty() ? nullptr
                                                             : &row.shown.collectives.back();
    if (last != nullptr)
      out["operation"] = {
          {"sequence", last->call.sequence}, {"call", last->call.describe()}, {"in_flight", in != nullptr}};
    out["calls_per_s"] = row.calls_per_s;
    out["bytes_per_s"] = row.bytes_per_s;
    out["waits_for"] = row.waits_for;
    out["totals"] = json::object();
    for (const auto& [kind, total] : row.totals) out["totals"][kind] = {{"calls", total.calls}, {"bytes", total.bytes}};
    out["error"] = nullptr;
    if (row.shown.error)
      out["error"] = {{"name", anello::result_name(row.shown.error->code)}, {"text", row.shown.error->text}};
  }
  return json{{"ranks", list}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string as_prometheus(const std::vector<Row>& rows) {
  std::ostringstream out;
  const auto metric =
      [&](const char* name, const char* type, const char* help, const std::function<void(const Row&)>& write) {
    out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
    for (const Row& row : rows) write(row);
  };
  const auto by_kind = [&](const char* name, std::uint64_t anello::recorder::Total::*what) {
    return [&out, name, what](const Row& row) {
      for (const auto& [kind, total] : row.totals)
        out << name << '{' << labels_of(row) << ",kind=\"" << kind << "\"} " << total.*what << '\n';
    };
  };
  const auto gauge = [&](const char* name, const std::function<long long(const Row&)>& value) {
    return [&out, name, value](const Row& row) { out << name << '{' << labels_of(row) << "} " << value(row) << '\n'; };
  };
  metric("anello_calls_total", "counter", "Calls that the rank has made in the communicator.",
         by_kind("anello_calls_total", &anello::recorder::Total::calls));
  metric("anello_bytes_total", "counter", "Bytes of the buffers of these calls on the rank.",
         by_kind("anello_bytes_total", &anello::recorder::Total::bytes));
  metric("anello_waiting", "gauge", "1 if the rank was in one operation from one look to the next.",
         gauge("anello_waiting", [](const Row& row) { return row.waits; }));
  metric("anello_stopped", "gauge", "1 if the rank's process is stopped.",
         gauge("anello_stopped", [](const Row& row) { return row.is_stopped; }));
  metric("anello_failed", "gauge", "The code of the communicator's error, 0 if it has none.",
         gauge("anello_failed", [](const Row& row) { return row.shown.error ? int(row.shown.error->code) : 0; }));
  return out.str();
}

}  // namespace top
