#include "scale.h"

#include "base/clock.h"
#include "base/text.h"
#include "schedule/hosts.h"
#include "schedule/predict.h"
#include "schedule/shape.h"
#include "schedule/simulate.h"
#include "schedule/totals.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace anello::plan {
namespace {

using nlohmann::json;
using schedule::Algorithm;
using schedule::Call;
using schedule::Hosts;
using schedule::Schedule;
using schedule::Topology;

// Ranks whose plans are looked at if there are too many for all.
constexpr int kSpread = 24;
// Of all ranks together. The plans of more are not held at once.
constexpr std::size_t kMostSteps = 4'000'000;
constexpr std::int64_t kLookMs = 1000;  // at them, for one algorithm

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

enum class From { all, one_host, nothing };
constexpr const char* kFroms[] = {"all ranks' plans", "the plans of one host's ranks", "none"};

struct Row {
  const Algorithm* algorithm = nullptr;
  bool chosen = false;
  std::size_t chunk = 0;
  Load load;
  std::size_t looked_at = 0;
  double seconds = -1;
  From from = From::nothing;
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

// Whether all ranks of equal hosts do the same at the same time.
bool keeps_step(const Algorithm& algorithm, const Call& call, int size) {
  if (!schedule::has_parts(call.collective) && call.count < static_cast<std::size_t>(size)) return false;
  const bool is_power_of_two = (size & (size - 1)) == 0;
  if (algorithm.name == "doubling" || algorithm.name == "halving") return is_power_of_two;
  return algorithm.name == "ring" || algorithm.name == "pairwise" || algorithm.name == "hierarchical";
}

bool are_equal(const Hosts& hosts) {
  for (int host = 0; host < hosts.count(); ++host) {
    if (static_cast<int>(hosts.ranks(host).size()) != hosts.most()) return false;
  }
  return true;
}

Row row_of(const Request& request, const Topology& topology, const Hosts& hosts, const Call& call,
           const Algorithm& algorithm, std::size_t chunk) {
  Row row;
  row.algorithm = &algorithm;
  row.chunk = chunk;
  const auto plan_of = [&](int rank) { return algorithm.make(call, topology, rank, chunk); };
  // The first host's ranks first: only some of a host's ranks may have peers on others.
  std::vector<int> some = hosts.ranks(0);
  some.resize(std::min<std::size_t>(some.size(), kSpread));
  const auto look_at = [&](int rank) {
    if (std::find(some.begin(), some.end(), rank) == some.end()) some.push_back(rank);
  };
  look_at(call.root);
  look_at(topology.size - 1);
  for (int i = 1; i < kSpread; ++i) look_at(static_cast<int>(static_cast<long long>(topology.size) * i / kSpread));
  std::size_t most_steps = 0, steps = 0;
  const Deadline enough = Deadline::in_ms(kLookMs);
  for (const int rank : some) {
    if (row.looked_at > 0 && enough.passed()) break;
    ++row.looked_at;
    const Schedule own = plan_of(rank);
    steps += own.steps.size();
    most_steps = std::max(most_steps, own.steps.size());
    row.load.widen(load_of(call, hosts, topology.size, rank, own));
  }
  // The busiest may be the only one of its kind, such as a root.
  const std::size_t of_others = row.looked_at > 1 ? (steps - most_steps) / (row.looked_at - 1) : most_steps;
  const std::size_t of_all = of_others * static_cast<std::size_t>(topology.size) + most_steps;
  const schedule::Cost cost = request.cost();
  if (of_all <= kMostSteps) {
    const std::vector<Schedule> plans = schedule::make_all(algorithm, call, topology, chunk);
    for (int rank = 0; rank < topology.size; ++rank) {
      row.load.widen(load_of(call, hosts, topology.size, rank, plans[static_cast<std::size_t>(rank)]));
    }
    row.looked_at = plans.size();
    row.seconds = schedule::predict(call, topology, plans, cost).seconds;
    row.from = From::all;
  } else if (keeps_step(algorithm, call, topology.size) && are_equal(hosts)) {
    row.seconds = schedule::predict_in_step(call, topology, cost, plan_of);
    if (row.seconds >= 0) row.from = From::one_host;
  }
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
          {"seconds", row.from == From::nothing ? json(nullptr) : json(row.seconds)},
          {"predicted_from", kFroms[static_cast<int>(row.from)]},
          {"ranks_looked_at", row.looked_at},
          {"sent_bytes", row.load.sent},
          {"received_bytes", row.load.received},
          {"sent_to_other_hosts_bytes", row.load.to_hosts},
          {"messages", row.load.messages},
          {"connections", row.load.peers},
          {"memory_bytes", row.load.memory}};
}

void print(const Request& request, const Topology& topology, const Hosts& hosts, const std::vector<Row>& rows) {
  std::cout << request.collective << ": " << topology.size << " ranks on "
            << (topology.network ? text(hosts.count(), " hosts") : std::string("one host")) << ", "
            << request.call().count << " elements of " << request.call().element_bytes << " bytes\n\n";
  std::printf("  %-14s %10s  %10s %11s %11s %9s %11s %9s\n", "algorithm", "time", "sent", "to hosts", "received",
              "messages", "connections", "memory");
  bool one_host = false, unknown = false, spread = false;
  for (const Row& row : rows) {
    one_host |= row.from == From::one_host;
    unknown |= row.from == From::nothing;
    spread |= row.looked_at < static_cast<std::size_t>(topology.size);
    std::printf("%s %-14s %10s%s %10s %11s %11s %9zu %11zu %9s\n", row.chosen ? "*" : " ",
                std::string(row.algorithm->name).c_str(), duration(row.seconds).c_str(),
                row.from == From::one_host ? "'" : " ", amount(row.load.sent).c_str(),
                amount(row.load.to_hosts).c_str(), amount(row.load.received).c_str(), row.load.messages, row.load.peers,
                amount(row.load.memory).c_str());
  }
  std::cout << "\nOf the busiest rank; \"to hosts\": the part of sent that leaves its host; *: the table's choice.\n";
  if (one_host) std::cout << "': from the plans of one host's ranks, since all hosts do the same at the same time.\n";
  if (unknown) {
    std::cout << "-: not predicted: too many steps to simulate, and ranks that differ.\n";
  }
  if (spread) std::cout << "Where plans are long, only the first host's ranks and some others are looked at.\n";
}

}  // namespace

int scale(const Request& request) {
  const Call call = request.call();
  Topology topology = request.topology();
  schedule::know_hosts(topology);
  const Hosts& hosts = *topology.known_hosts;
  const schedule::Wish wish = request.wish();
  const schedule::Choice chosen = schedule::choose(call, topology, wish);
  std::vector<Row> rows;
  for (const Algorithm& each : schedule::catalog()) {
    if (each.collective != call.collective || !each.fits(call, topology)) continue;
    const bool is_chosen = &each == chosen.algorithm;
    if (!request.algorithm.empty() && !is_chosen) continue;
    schedule::Wish own = wish;
    own.algorithm = std::string(each.name);
    const std::size_t chunk = request.chunk > 0 ? request.chunk : schedule::choose(call, topology, own).chunk;
    rows.push_back(row_of(request, topology, hosts, call, each, chunk));
    rows.back().chosen = is_chosen;
  }
  if (request.json) {
    json all = json::array();
    for (const Row& row : rows) all.push_back(to_json(row));
    std::cout << json{{"collective", request.collective},
                      {"ranks", topology.size},
                      {"hosts", hosts.count()},
                      {"count", call.count},
                      {"element_bytes", call.element_bytes},
                      {"algorithms", all}}
                     .dump(2)
              << '\n';
  } else {
    print(request, topology, hosts, rows);
  }
  return 0;
}

}  // namespace anello::plan
