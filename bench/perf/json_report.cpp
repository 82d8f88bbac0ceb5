#include "perf/json_report.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace perf {
namespace {

using nlohmann::ordered_json;

ordered_json figures(const Options& options, const std::optional<Figures>& from) {
  if (!from) return nullptr;
  ordered_json into{{"time", from->time_us}, {"alg_bw", from->algorithm_bandwidth}, {"bus_bw", from->bus_bandwidth}};
  into["nwrong"] = from->wrong ? ordered_json(*from->wrong) : ordered_json(nullptr);
  if (options.stats) {
    into["min"] = from->minimum_us;
    into["median"] = from->median_us;
    into["p99"] = from->p99_us;
    into["maximum"] = from->maximum_us;
    into["variation"] = from->variation;
  }
  return into;
}

}  // namespace

void write_json(const Options& options, const std::vector<Participant>& ranks, const std::optional<Ceilings>& ceilings,
                const std::vector<Row>& rows, std::optional<std::int64_t> wrong, double average_bus_bandwidth) {
  ordered_json report{{"program", "anello-perf"}, {"version", ANELLO_VERSION_STRING}, {"commit", anello_commit()}};
  report["collective"] = name(options.collective);
  report["ranks_as"] = options.threads ? "threads" : "processes";
  report["iterations"] = options.iterations;
  report["warmup"] = options.warmup;
  report["checks"] = options.checks;
  report["dirty"] = options.dirty;
  report["memory"] = memory_name(options.memory);
  report["ranks"] = ordered_json::array();
  for (const Participant& rank : ranks) {
    report["ranks"].push_back(
        {{"host", rank.host}, {"pid", rank.pid}, {"processors", rank.processors}, {"transports", rank.transports}});
  }
  if (ceilings) {
    ordered_json& best = report["ceilings"];
    best["memcpy_gbps"] = ceilings->memcpy_gbps;
    best["cache_line_ns"] = ceilings->cache_line_ns ? ordered_json(*ceilings->cache_line_ns) : ordered_json(nullptr);
    best["loopback_latency_us"] = ceilings->loopback_latency_us;
    best["loopback_gbps"] = ceilings->loopback_gbps;
    if (ceilings->rdma) {
      best["rdma_port"] = ceilings->rdma->port;
      best["rdma_latency_us"] = ceilings->rdma->latency_us;
      best["rdma_gbps"] = ceilings->rdma->gbps;
    }
  }
  report["results"] = ordered_json::array();
  for (const Row& row : rows) {
    report["results"].push_back({{"size", row.of.bytes},
                                 {"count", row.of.count},
                                 {"type", anello_dtype_name(row.of.dtype)},
                                 {"redop", reduces(row.of.collective) ? anello_op_name(row.of.op) : "none"},
                                 {"root", has_root(row.of.collective) ? row.of.root : -1},
                                 {"out_of_place", figures(options, row.out_of_place)},
                                 {"in_place", figures(options, row.in_place)}});
  }
  report["out_of_bounds"] = {{"count", wrong ? ordered_json(*wrong) : ordered_json(nullptr)},
                             {"okay", !wrong || *wrong == 0}};
  report["average_bus_bandwidth"] = average_bus_bandwidth;

  std::ofstream file(options.json);
  file << report.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write '" + options.json + "': " + std::strerror(errno));
}

}  // namespace perf
