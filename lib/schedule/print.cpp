#include "schedule/print.h"

#include "base/text.h"
#include "schedule/predict.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

namespace anello::schedule {
namespace {

const char* short_name(Buffer buffer) {
  switch (buffer) {
    case Buffer::input: return "in";
    case Buffer::output: return "out";
    case Buffer::scratch: return "scratch";
    case Buffer::accumulator: return "acc";
    case Buffer::staging: return "staging";
  }
  return "?";
}

std::string both(const Step& step, const std::string& left, const std::string& right) {
  return step.reversed ? right + " + " + left : left + " + " + right;
}

std::vector<std::string> waits_for(const Schedule& schedule) {
  std::vector<std::string> result(schedule.steps.size());
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (std::uint32_t f = schedule.follower_begin[s]; f < schedule.follower_begin[s + 1]; ++f) {
      std::string& list = result[schedule.followers[f]];
      list += text(list.empty() ? "" : " ", s);
    }
  return result;
}

// One line of a grid: cells of equal width, no blanks at the end.
std::string grid_line(const std::string& head, const std::vector<std::string>& cells, std::size_t width) {
  std::string line(head.size() < 6 ? 6 - head.size() : 0, ' ');
  line += head;
  for (const std::string& each : cells) line += "  " + each + std::string(width - each.size(), ' ');
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string cell(const Step& step) {
  switch (step.kind) {
    case Kind::send: return text("> ", step.peer, "  ", describe(step.from));
    case Kind::recv: return text("< ", step.peer, "  ", describe(step.into));
    case Kind::recv_reduce: return text("+ ", step.peer, "  ", describe(step.into));
    case Kind::barrier: return name(step.kind);
    case Kind::copy:
      if (step.from.owner >= 0) return text("= ", step.from.owner, "  ", describe(step.into));
      [[fallthrough]];
    default: return text(name(step.kind), " ", describe(step.into));
  }
}

std::string numbers(const std::vector<int>& ranks) {
  std::string all;
  for (const int rank : ranks) all += text(all.empty() ? "" : ", ", rank);
  return all;
}

}  // namespace

const char* name(Kind kind) {
  switch (kind) {
    case Kind::send: return "send";
    case Kind::recv: return "recv";
    case Kind::recv_reduce: return "recv_reduce";
    case Kind::reduce: return "reduce";
    case Kind::copy: return "copy";
    case Kind::finish: return "finish";
    case Kind::exchange: return "exchange";
    case Kind::reduce_ranks: return "reduce all";
    case Kind::reduce_staged: return "reduce_staged";
    case Kind::barrier: return "barrier";
  }
  return "unknown";
}

std::string describe(const Slice& slice) {
  const std::string whose = slice.owner == kOwn    ? ""
                            : slice.owner == kEach ? "all ranks' "
                                                   : text("rank ", slice.owner, "'s ");
  return text(whose, short_name(slice.buffer), "[", slice.offset, "..", slice.offset + slice.count, ")");
}

std::string describe(const Step& step) {
  const std::string into = describe(step.into);
  const std::string from = describe(step.from);
  const std::string peer = text("rank ", step.peer);
  switch (step.kind) {
    case Kind::send: return text("send ", from, " to ", peer);
    case Kind::recv: return text("recv ", into, " = ", peer);
    case Kind::recv_reduce: return text("recv_reduce ", into, " = ", both(step, from, peer));
    case Kind::reduce: return text("reduce ", into, " = ", both(step, into, from));
    case Kind::copy: return text("copy ", into, " = ", from);
    case Kind::finish: return text("finish ", into, " = finished ", from);
    case Kind::exchange: return text("exchange ", into, " = all ranks' ", from);
    case Kind::reduce_ranks: return text("reduce ", into, " = ", from);
    case Kind::reduce_staged:
      return text("reduce_staged ", into, step.shown == kNotShown ? "" : text(" and ", describe(twin_of(step))), " = ",
                  from, step.among ? text(" and of ", numbers(*step.among), " the others' ") : " and all others' ",
                  describe(Slice{Buffer::staging, step.staged, step.into.count}));
    case Kind::barrier: return "barrier";
  }
  return "unknown";
}

std::string table(const std::vector<Schedule>& schedules) {
  std::ostringstream out;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const Schedule& schedule = schedules[r];
    out << "rank " << r << ": " << schedule.steps.size() << " steps";
    if (schedule.scratch > 0) out << ", " << schedule.scratch << " elements of scratch";
    if (schedule.accumulator > 0) out << ", " << schedule.accumulator << " accumulators";
    if (schedule.staging > 0) out << ", " << schedule.staging << " elements of staging";
    out << '\n';
    const std::vector<std::string> waits = waits_for(schedule);
    std::vector<std::string> lines;
    std::size_t width = 0;
    for (const Step& step : schedule.steps) {
      lines.push_back(describe(step));
      width = std::max(width, lines.back().size());
    }
    for (std::size_t s = 0; s < lines.size(); ++s) {
      out << std::right << std::setw(6) << s << "  " << lines[s];
      if (!waits[s].empty()) out << std::string(width - lines[s].size() + 3, ' ') << "after " << waits[s];
      out << '\n';
    }
    out << '\n';
  }
  return std::move(out).str();
}

std::string grid(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules) {
  Cost a_slot_each;
  a_slot_each.message_s = 1;
  const Prediction prediction = predict(call, topology, schedules, a_slot_each);
  // Steps between two slots are shown in the earlier slot, in which the data arrived.
  const auto slot_of = [&](std::size_t r, std::size_t s) {
    const Span& span = prediction.spans[r][s];
    const bool sends = schedules[r].steps[s].kind == Kind::send;
    return std::max(0L, std::lround(sends ? span.begin_s : span.end_s - 1));
  };
  std::map<long, std::vector<std::vector<std::string>>> slots;
  std::size_t width = 8;
  for (std::size_t r = 0; r < schedules.size(); ++r)
    for (std::size_t s = 0; s < schedules[r].steps.size(); ++s) {
      auto& row = slots[slot_of(r, s)];
      row.resize(schedules.size());
      row[r].push_back(cell(schedules[r].steps[s]));
      width = std::max(width, row[r].back().size());
    }
  std::vector<std::string> heads;
  for (std::size_t r = 0; r < schedules.size(); ++r) heads.push_back(text("rank ", r));
  std::string out = grid_line("slot", heads, width);
  for (const auto& [slot, row] : slots) {
    std::size_t height = 0;
    for (const auto& lines : row) height = std::max(height, lines.size());
    for (std::size_t line = 0; line < height; ++line) {
      std::vector<std::string> cells;
      for (const auto& lines : row) cells.push_back(line < lines.size() ? lines[line] : "");
      out += grid_line(line == 0 ? text(slot) : "", cells, width);
    }
  }
  return out;
}

}  // namespace anello::schedule
