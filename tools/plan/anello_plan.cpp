// anello-plan: shows what a collective call will do. It prints, draws, simulates and explains schedules; it starts no
// ranks and opens no connection.
#include "request.h"
#include "scale.h"

#include "base/text.h"
#include "schedule/builder.h"
#include "schedule/print.h"
#include "schedule/shape.h"
#include "schedule/simulate.h"
#include "schedule/svg.h"
#include "shared/command_line.h"
#include "shared/manual.h"
#include "shared/complaint.h"
#include "shared/output_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace anello::plan {
namespace {

using nlohmann::json;
using schedule::Call;
using schedule::Decision;
using schedule::Schedule;
using schedule::Topology;

constexpr std::size_t kMostSimulatedElements = 20'000'000;
constexpr std::size_t kMostDrawnSteps = 20'000;
constexpr std::size_t kMostSteps = schedule::kMostSteps;  // in total

const char* const kExamples = R"(Examples:
  anello-plan allreduce --ranks 4 --count 16 --algorithm ring     who sends what to whom, slot by slot
  anello-plan broadcast --ranks 8 -a tree --view table            every step and what it waits for
  anello-plan allreduce -r 4 -c 16 -a ring --svg ring.svg         the same as a drawing
  anello-plan allreduce -r 17 -c 1009 -a doubling --simulate      run on symbols in random orders, check, predict
  anello-plan explain allreduce -r 8 --count 1048576 --network    which line of the table decides, and why
  anello-plan allreduce -r 4 --reach store -a direct --simulate   over memory that ranks load from and store into
  anello-plan allreduce --per-host 4,4,3 -c 100000 --simulate     three hosts; --round-robin numbers ranks in turn
  anello-plan scale allreduce --per-host 8x8192 -c 16777216       every algorithm at 65,536 ranks, 8 on a host
  anello-plan scale allreduce --per-host 8x64 --rate 100 --latency 5      over links of 100 Gbit/s and 5 us
  anello-plan --list                                              the algorithms
)";

struct View {
  std::string name;
  std::string svg_file;
  bool simulate = false;
};

struct Verdict {
  std::string problem;
  std::size_t orders = 0;
  std::vector<schedule::Traffic> traffic;
  double seconds = 0;
};

Verdict simulate(const Request& request, const schedule::Calls& calls, const Topology& topology,
                 const std::vector<Schedule>& schedules) {
  const Call& call = calls.shared();
  const auto ranks = static_cast<std::size_t>(topology.size);
  std::size_t elements = 0;  // that ranks get
  for (int rank = 0; rank < topology.size; ++rank) {
    elements += std::max<std::size_t>(schedule::result_count(calls.of(rank), topology.size, rank), 1);
  }
  if (elements > kMostSimulatedElements || call.count > kMostSimulatedElements / ranks)
    throw std::runtime_error(
        "too many elements to simulate one by one; take a smaller --count (plans do not depend on "
        "more than how it divides by ranks and chunk)");
  Verdict verdict;
  constexpr std::size_t kOrders = 8;
  for (std::size_t seed = 1; seed <= kOrders && verdict.problem.empty(); ++seed, ++verdict.orders) {
    // From strict rendezvous to full buffering.
    const auto eager = static_cast<unsigned>((seed - 1) * 256 / (kOrders - 1));
    schedule::Outcome outcome = schedule::simulate(calls, topology, schedules, {seed, eager, -1, 0});
    verdict.problem = outcome.problem;
    verdict.traffic = std::move(outcome.traffic);
  }
  if (verdict.problem.empty()) verdict.seconds = schedule::predict(call, topology, schedules, request.cost()).seconds;
  return verdict;
}

std::string microseconds(double seconds) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, seconds < 1e-2 ? "%.1f us" : "%.0f us", seconds * 1e6);
  return buffer;
}

void print_verdict(const Verdict& verdict, const Call& call) {
  if (!verdict.problem.empty()) {
    std::cout << "simulated: WRONG after " << verdict.orders << " orders of events: " << verdict.problem << '\n';
    return;
  }
  std::size_t most_sent = 0;
  std::size_t most_received = 0;
  std::size_t messages = 0;
  for (const schedule::Traffic& traffic : verdict.traffic) {
    most_sent = std::max(most_sent, traffic.sent);
    most_received = std::max(most_received, traffic.received);
    messages = std::max(messages, traffic.messages);
  }
  std::cout << "simulated: right in " << verdict.orders << " random orders of events\n"
            << "traffic of the busiest rank: " << most_sent * call.element_bytes << " bytes out, "
            << most_received * call.element_bytes << " bytes in, " << messages << " messages\n"
            << "predicted: " << microseconds(verdict.seconds) << " (a rough guess, for comparing plans)\n";
}

json to_json(const schedule::Slice& slice) {
  static const char* const buffers[] = {"input", "output", "scratch", "accumulator"};
  json all = {{"buffer", buffers[static_cast<int>(slice.buffer)]}, {"offset", slice.offset}, {"count", slice.count}};
  if (slice.owner == schedule::kEach) all["owner"] = "each";
  if (slice.owner >= 0) all["owner"] = slice.owner;
  return all;
}

json to_json(const Schedule& schedule) {
  json steps = json::array();
  for (const schedule::Step& step : schedule.steps) {
    json each = {{"kind", schedule::name(step.kind)}, {"after", json::array()}};
    if (step.peer >= 0) each["peer"] = step.peer;
    if (schedule::has_into(step.kind)) each["into"] = to_json(step.into);
    if (schedule::has_from(step.kind)) each["from"] = to_json(step.from);
    if (step.reversed) each["reversed"] = true;
    steps.push_back(each);
  }
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (std::uint32_t f = schedule.follower_begin[s]; f < schedule.follower_begin[s + 1]; ++f)
      steps[schedule.followers[f]]["after"].push_back(s);
  return {{"steps", steps}, {"scratch", schedule.scratch}, {"accumulator", schedule.accumulator}};
}

json to_json(const Verdict& verdict) {
  json traffic = json::array();
  for (const schedule::Traffic& each : verdict.traffic)
    traffic.push_back({{"sent", each.sent}, {"received", each.received}, {"messages", each.messages}});
  return {{"right", verdict.problem.empty()},
          {"problem", verdict.problem},
          {"orders", verdict.orders},
          {"traffic_elements", traffic},
          {"predicted_seconds", verdict.seconds}};
}

// The wish has the table to which the decision's rule belongs.
Decision decide(const Request& request, const schedule::Wish& wish) {
  Decision decision = schedule::decide(request.call(), request.topology(), wish);
  if (request.chunk > 0) decision.choice.chunk = request.chunk;
  return decision;
}

int list(bool as_json) {
  json rows = json::array();
  for (const schedule::Algorithm& row : schedule::catalog()) {
    if (as_json)
      rows.push_back({{"collective", schedule::name(row.collective)}, {"algorithm", row.name}, {"what", row.what}});
    else
      std::printf("%-15s %-14s %s\n", schedule::name(row.collective), std::string(row.name).c_str(),
                  std::string(row.what).c_str());
  }
  if (as_json) std::cout << rows.dump(2) << '\n';
  return 0;
}

int explain(const Request& request) {
  const schedule::Wish wish = request.wish();
  const Decision decision = decide(request, wish);
  const std::size_t chunk_bytes = decision.choice.chunk * request.call().element_bytes;
  if (request.json) {
    std::cout << json{{"collective", request.collective},
                      {"algorithm", decision.choice.algorithm->name},
                      {"chunk", decision.choice.chunk},
                      {"chunk_bytes", chunk_bytes},
                      {"why", decision.why}}
                     .dump(2)
              << '\n';
    return 0;
  }
  std::cout << decision.choice.algorithm->name << ", chunks of " << decision.choice.chunk << " elements ("
            << chunk_bytes << " bytes)\n"
            << decision.why << "\n\n";
  std::printf("%-6s %-9s %-6s %8s %12s %12s %10s  %-14s %10s\n", "rule", "where", "reach", "from", "up to", "of all",
              "for each", "algorithm", "chunk");
  if (decision.rule != nullptr && decision.rule->line > 0) std::cout << "The library's own rules, for comparison:\n";
  const auto bound = [](std::size_t bytes) { return bytes == SIZE_MAX ? std::string("any") : text(bytes); };
  for (const schedule::Rule& rule : schedule::rules()) {
    const schedule::Collective collective = request.call().collective;
    if (!rule.collectives.has(collective) || schedule::find(collective, rule.algorithm) == nullptr) continue;
    std::printf(
        "%-4td %s %-9s %-6s %8zu %12s %12s %10s  %-14s %10zu\n", &rule - schedule::rules().data() + 1,
        &rule == decision.rule ? "*" : " ", std::string(schedule::name(rule.where)).c_str(), schedule::name(rule.reach),
        rule.from_bytes, bound(rule.up_to_bytes).c_str(), bound(rule.up_to_bytes_total).c_str(),
        rule.from_bytes_each > 0 ? text("from ", rule.from_bytes_each).c_str() : bound(rule.up_to_bytes_each).c_str(),
        std::string(rule.algorithm).c_str(), rule.chunk_bytes);
  }
  std::cout << "Measured on " << schedule::rules_measured_on() << ". anello-tune measures this machine.\n";
  return 0;
}

// All ranks' schedules, unless they are too large, judged by the number of chunks and by one rank's schedule.
std::vector<Schedule> schedules_of(const schedule::Choice& choice, const schedule::Calls& calls,
                                   const Topology& topology) {
  const Call& call = calls.shared();
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto too_many = [](std::size_t steps) {
    return std::runtime_error(text(steps,
                                   " steps and more are too many to hold; take fewer ranks, a smaller --count or "
                                   "a larger --chunk"));
  };
  const std::size_t chunks = call.count / std::max<std::size_t>(choice.chunk, 1);
  if (chunks > kMostSteps) throw too_many(chunks);
  const std::size_t steps =
      choice.algorithm->make(calls.of(call.root), topology, call.root, choice.chunk).steps.size() * ranks;
  if (steps > kMostSteps) throw too_many(steps);
  return schedule::make_all(*choice.algorithm, calls, topology, choice.chunk);
}

int show(const Request& request, const View& view) {
  const Call call = request.call();
  const Topology topology = request.topology();
  const schedule::Wish wish = request.wish();
  const Decision decision = decide(request, wish);
  const schedule::Calls calls(schedule::calls_of(call, request.counts()), topology.size);
  if (!view.svg_file.empty()) shared::check_writable(view.svg_file);
  const std::vector<Schedule> schedules = schedules_of(decision.choice, calls, topology);
  std::size_t steps = 0;
  for (const Schedule& each : schedules) steps += each.steps.size();

  Verdict verdict;
  if (view.simulate) verdict = simulate(request, calls, topology, schedules);
  const int status = verdict.problem.empty() ? 0 : 1;

  if (!view.svg_file.empty()) {
    if (steps > kMostDrawnSteps)
      throw std::runtime_error(text(steps, " steps are too many to draw; take fewer ranks or chunks"));
    std::ofstream file(view.svg_file);
    file << schedule::svg(calls, topology, schedules);
    file.close();
    if (!file) throw std::runtime_error("cannot write " + view.svg_file);
  }
  if (request.json) {
    json ranks = json::array();
    for (const Schedule& each : schedules) ranks.push_back(to_json(each));
    json all = {{"collective", request.collective}, {"algorithm", decision.choice.algorithm->name},
                {"ranks", topology.size},           {"count", request.count},
                {"chunk", decision.choice.chunk},   {"schedules", ranks}};
    if (!request.counts().empty()) all["counts"] = request.counts();
    if (view.simulate) all["simulation"] = to_json(verdict);
    std::cout << all.dump(2) << '\n';
    return status;
  }
  std::cout << decision.choice.algorithm->name << ' ' << request.collective << ": " << topology.size << " ranks, "
            << request.elements() << ", chunks of " << decision.choice.chunk << ", " << steps << " steps in all\n";
  if (!decision.rule || !request.algorithm.empty()) std::cout << decision.why << '\n';
  std::cout << '\n';
  const bool quiet = view.name.empty() && (view.simulate || !view.svg_file.empty());
  const bool wide = topology.size > 8;
  if (view.name == "table" || (view.name.empty() && wide && !quiet))
    std::cout << schedule::table(schedules);
  else if (view.name == "grid" || !quiet)
    std::cout << schedule::grid(call, topology, schedules)
              << "\n> sends to, < gets from, + gets from and reduces, = reads the memory of\n";
  if (view.simulate) print_verdict(verdict, call);
  if (!view.svg_file.empty()) std::cout << "drawn to " << view.svg_file << '\n';
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("What an Anello collective will do: prints, draws, simulates and explains its schedule.", "anello-plan");
  app.footer(kExamples);
  shared::add_manual(app);
  Request request;
  View view;
  bool lists = false;
  add_options(app, request);
  app.add_flag("--list", lists, "list the algorithms of every collective");
  app.add_option("--view", view.name, "grid: time slots by ranks; table: every step and what it waits for")
      ->transform(shared::one_of({"grid", "table"}));
  app.add_option("--svg", view.svg_file, "draw to this file");
  app.add_flag("--simulate", view.simulate, "run it on symbols in random orders: verdict, traffic, predicted time");
  Request explained;
  CLI::App* const explains = app.add_subcommand("explain", "which line of the table decides for a call, and why");
  add_options(*explains, explained);
  Request scaled;
  CLI::App* const scales =
      app.add_subcommand("scale", "what each algorithm for a call costs the busiest rank, at up to 65,536 ranks");
  add_options(*scales, scaled);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return shared::end(app, error);
  }
  if (lists) return list(request.json);
  const Request& asked = explains->parsed() ? explained : scales->parsed() ? scaled : request;
  if (const std::string problem = why_not(asked); !problem.empty()) {
    std::cerr << "anello-plan: " << problem << '\n';
    return 2;
  }
  if (scales->parsed()) return scale(asked);
  return explains->parsed() ? explain(asked) : show(asked, view);
}

}  // namespace
}  // namespace anello::plan

int main(int argc, char** argv) {
  try {
    return anello::plan::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "anello-plan: " << shared::complaint(error) << '\n';
    return 1;
  }
}
