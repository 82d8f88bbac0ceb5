#include "scale.h"

#include "base/error.h"
#include "base/text.h"
#include "schedule/builder.h"
#include "schedule/estimate.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"
#include "schedule/totals.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace anello::plan {
namespace {

using nlohmann::json;
using schedule::Algorithm;
using schedule::Call;
using schedule::From;
using schedule::Hosts;
using schedule::Schedule;
using schedule::Topology;

// Of the busiest rank, in bytes.
struct Load {
  std::size_t sent = 0, received = 0, to_hosts = 0;
  std::size_t messages = 0, peers = 0, memory = 0;

  void widen(const Load& other) {
    for (std::size_t Load::*const each :
         {&Load::sent, &Load::received, &Load::to_hosts, &Load::messages, &Load::peers, &Load::memory}) {
      this->*each = std::max(this->*each, other.*each);
    }
  }
};

// By From.
constexpr const char* kFroms[] = {"all ranks' plans", "the plans of one host's ranks", "the plans of fewer ranks",
                                  "none"};
constexpr const char* kMarks[] = {" ", "'", "~", " "};

struct Row {
  const Algorithm* algorithm = nullptr;
  bool chosen = false;
  std::size_t chunk = 0;
  Load load;
  std::size_t looked_at = 0;
  schedule::Estimate estimate;
};

Load load_of(const Call& call, const Hosts& hosts, int size, int rank, const Schedule& own) {
  const schedule::Totals totals = schedule::totals(call, size, rank, own);
  Load load;
  load.sent = totals.sent * call.element_bytes;
  load.received = totals.received * call.element_bytes;
  load.messages = totals.messages;
  load.peers = totals.peers.size();
  constexpr std::size_t kAccumulatorBytes = 4;  // float32, for 16-bit floats
  load.memory = (own.scratch + own.staging) * call.element_bytes + own.accumulator * kAccumulatorBytes;
  for (const schedule::PeerTotals& peer : totals.peers) {
    if (hosts.of(peer.peer) != hosts.of(rank)) load.to_hosts += peer.sent * call.element_bytes;
  }
  return load;
}

Row row_of(const Request& request, const Topology& topology, const Hosts& hosts, const Call& call,
           const Algorithm& algorithm, std::size_t chunk) {
  Row row;
  row.algorithm = &algorithm;
  row.chunk = chunk;
  std::set<int> looked_at;
  const auto look = [&](int rank, const Schedule& own) {
    if (!looked_at.insert(rank).second) return;
    row.load.widen(load_of(call, hosts, topology.size, rank, own));
  };
  try {
    row.estimate = schedule::estimate(call, topology, algorithm, chunk, request.cost(), look, {}, request.counts());
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_RESOURCE) throw;
    looked_at.clear();  // one rank's plan is too long
  }
  row.looked_at = looked_at.size();
  return row;
}

std::string amount(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return buffer;
}

std::string duration(double seconds) {
  if (seconds < 0) return "-";
  char buffer[32];
  if (seconds < 1e-3) {
    std::snprintf(buffer, sizeof buffer, "%.1f us", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(buffer, sizeof buffer, "%.2f ms", seconds * 1e3);
  } else {
    std::snprintf(buffer, sizeof buffer, "%.2f s", seconds);
  }
  return buffer;
}

json to_json(const Row& row) {
  return {{"algorithm", row.algorithm->name},
          {"chosen", row.chosen},
          {"chunk", row.chunk},
          {"seconds", row.estimate.from == From::nothing ? json(nullptr) : json(row.estimate.seconds)},
          {"predicted_from", kFroms[static_cast<int>(row.estimate.from)]},
          {"ranks_simulated", row.estimate.ranks},
          {"ranks_looked_at", row.looked_at},
          {"sent_bytes", row.load.sent},
          {"received_bytes", row.load.received},
          {"sent_to_other_hosts_bytes", row.load.to_hosts},
          {"messages", row.load.messages},
          {"connections", row.load.peers},
          {"memory_bytes", row.load.memory}};
}

// Rows come one by one, since those of many ranks take seconds each.
class Table {
 public:
  Table(const Request& request, const Topology& topology, const Hosts& hosts)
      : ranks_(static_cast<std::size_t>(topology.size)) {
    std::cout << request.collective << ": " << topology.size << " ranks on "
              << (topology.network ? text(hosts.count(), " hosts") : std::string("one host")) << ", "
              << request.elements() << " of " << request.call().element_bytes << " bytes\n\n";
    std::printf("  %-14s %10s  %10s %11s %11s %9s %11s %9s\n", "algorithm", "time", "sent", "to hosts", "received",
                "messages", "connections", "memory");
  }

  void add(const Row& row) {
    if (row.looked_at == 0) {
      too_long_ = true;
      std::printf("%s %-14s %10s  %10s %11s %11s %9s %11s %9s\n", row.chosen ? "*" : " ",
                  std::string(row.algorithm->name).c_str(), "-", "-", "-", "-", "-", "-", "-");
      return;
    }
    ++from_[static_cast<std::size_t>(row.estimate.from)];
    spread_ |= row.looked_at < ranks_;
    std::printf("%s %-14s %10s%s %10s %11s %11s %9zu %11zu %9s\n", row.chosen ? "*" : " ",
                std::string(row.algorithm->name).c_str(), duration(row.estimate.seconds).c_str(),
                kMarks[static_cast<int>(row.estimate.from)], amount(row.load.sent).c_str(),
                amount(row.load.to_hosts).c_str(), amount(row.load.received).c_str(), row.load.messages, row.load.peers,
                amount(row.load.memory).c_str());
    std::fflush(stdout);
  }

  void end() const {
    const auto is_any = [&](From from) { return from_[static_cast<std::size_t>(from)] > 0; };
    std::cout
        << "\nOf the busiest rank; \"to hosts\": the part of sent that leaves its host; memory: what the plan needs\n"
           "beside the caller's buffers; *: the table's choice.\n";
    if (is_any(From::one_host)) {
      std::cout << "': from the plans of one host's ranks, since all hosts do the same at the same time.\n";
    }
    if (is_any(From::fewer_ranks)) {
      std::cout << "~: from three smaller numbers of ranks, as a + b log2(ranks) + c ranks.\n";
    }
    if (is_any(From::nothing))
      std::cout << "-: not predicted: even of few ranks, or few such hosts, there are too many steps to simulate.\n";
    if (too_long_) {
      std::cout << "Only dashes: a rank would take more than " << schedule::kMostSteps
                << " steps; a larger --chunk takes fewer.\n";
    }
    if (spread_) std::cout << "Where plans are long, only the first host's ranks and some others are looked at.\n";
  }

 private:
  std::size_t ranks_;
  std::size_t from_[std::size(kFroms)] = {};
  bool spread_ = false;
  bool too_long_ = false;
};

}  // namespace

int scale(const Request& request) {
  const Call call = request.call();
  Topology topology = request.topology();
  schedule::know_hosts(topology);
  const Hosts& hosts = *topology.known_hosts;
  const schedule::Wish wish = request.wish();
  const schedule::Decision chosen = schedule::decide(call, topology, wish);
  if (!request.algorithm.empty() && chosen.rule != nullptr) {
    throw Error(ANELLO_ERR_ARGUMENT, text("--algorithm: ", request.algorithm, " does not fit this call; what does: ",
                                          schedule::names_that_fit(call, topology)));
  }
  schedule::Wish unforced = wish;
  unforced.algorithm.clear();
  const schedule::Choice by_table = schedule::choose(call, topology, unforced);
  json all = json::array();
  std::optional<Table> table;
  if (!request.json) table.emplace(request, topology, hosts);
  for (const Algorithm& each : schedule::catalog()) {
    if (each.collective != call.collective || !each.fits(call, topology)) continue;
    if (!request.algorithm.empty() && &each != chosen.choice.algorithm) continue;
    schedule::Wish own = wish;
    own.algorithm = std::string(each.name);
    const std::size_t chunk = request.chunk > 0 ? request.chunk : schedule::choose(call, topology, own).chunk;
    Row row = row_of(request, topology, hosts, call, each, chunk);
    row.chosen = &each == by_table.algorithm;
    if (table) {
      table->add(row);
    } else {
      all.push_back(to_json(row));
    }
  }
  if (table) {
    table->end();
  } else {
    std::cout << json{{"collective", request.collective},
                      {"ranks", topology.size},
                      {"hosts", hosts.count()},
                      {"count", request.count},
                      {"element_bytes", call.element_bytes},
                      {"algorithms", all}}
                     .dump(2)
              << '\n';
  }
  return 0;
}

}  // namespace anello::plan
