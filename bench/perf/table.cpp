#include "perf/table.h"

#include <cinttypes>
#include <cstdio>
#include <set>

namespace perf {
namespace {

constexpr std::size_t kRanksNamed = 16;

std::string plural(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Four significant digits in seven columns, as in nccl-tests.
std::string time_text(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof text, microseconds < 1e4 ? "%.2f" : microseconds < 1e5 ? "%.1f" : "%.0f", microseconds);
  return text;
}

std::string bandwidth_text(double gbps) {
  char text[32];
  std::snprintf(text, sizeof text, gbps < 100 ? "%.2f" : "%.1f", gbps);
  return text;
}

void print_figures(const Options& options, const Case& of, const std::optional<Figures>& figures) {
  const bool moves = of.collective != Collective::barrier;
  std::printf("  %8s %7s %7s %6s", figures ? time_text(figures->time_us).c_str() : "N/A",
              figures && moves ? bandwidth_text(figures->algorithm_bandwidth).c_str() : "N/A",
              figures && moves ? bandwidth_text(figures->bus_bandwidth).c_str() : "N/A",
              figures && figures->wrong ? std::to_string(*figures->wrong).c_str() : "N/A");
  if (!options.stats) return;
  for (const double Figures::*time :
       {&Figures::minimum_us, &Figures::median_us, &Figures::p99_us, &Figures::maximum_us}) {
    std::printf(" %8s", figures ? time_text((*figures).*time).c_str() : "N/A");
  }
  std::printf(" %5s", figures ? bandwidth_text(100 * figures->variation).c_str() : "N/A");
}

}  // namespace

void print_header(const Options& options, const std::vector<Participant>& ranks,
                  const std::optional<Ceilings>& ceilings) {
  std::set<std::string> hosts;
  for (const Participant& rank : ranks) hosts.insert(rank.host);
  const int version = anello_version();
  std::printf("# anello-perf %s, commit %s", ANELLO_VERSION_STRING, anello_commit());
  if (version != ANELLO_VERSION_CODE) {
    std::printf(", with library %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  }
  std::printf("\n# %s: %s, %s of %s, on %s\n", name(options.collective), plural(ranks.size(), "rank").c_str(),
              options.threads ? "threads" : "processes", options.threads ? "one process" : "a job",
              plural(hosts.size(), "host").c_str());
  for (std::size_t rank = 0; rank < ranks.size() && rank < kRanksNamed; ++rank) {
    const Participant& who = ranks[rank];
    std::printf("#   rank %2zu  host %s  pid %d  %s%s%s\n", rank, who.host.c_str(), who.pid,
                plural(static_cast<std::size_t>(who.processors), "processor").c_str(),
                who.transports.empty() ? "" : "  ", who.transports.c_str());
  }
  if (ranks.size() > kRanksNamed) std::printf("#   and %zu more\n", ranks.size() - kRanksNamed);
  if (options.skipped > 0) {
    std::printf("# %zu pairs of type and operation make no sense and are skipped\n", options.skipped);
  }
  if (ceilings) {
    std::printf("# this host now: memcpy %.1f GB/s", ceilings->memcpy_gbps);
    if (ceilings->cache_line_ns) std::printf(", cache line %.0f ns one way", *ceilings->cache_line_ns);
    if (ceilings->loopback_gbps > 0) {
      std::printf(", loopback TCP %.1f us one way and %.1f GB/s", ceilings->loopback_latency_us,
                  ceilings->loopback_gbps);
    }
    if (ceilings->rdma && ceilings->rdma->gbps > 0) {
      std::printf(", RDMA WRITE within %s %.1f us one way and %.2f GB/s", ceilings->rdma->port.c_str(),
                  ceilings->rdma->latency_us, ceilings->rdma->gbps);
    }
    if (!ceilings->missing.empty()) std::printf(" (%s)", ceilings->missing.c_str());
    std::printf("\n");
  }
  std::printf("# %s after %s of warm-up; %s, memory %s; %s\n",
              plural(static_cast<std::size_t>(options.iterations), "call").c_str(),
              plural(static_cast<std::size_t>(options.warmup), "call").c_str(),
              options.dirty ? "input rewritten before each" : "the same buffers in each", memory_name(options.memory),
              options.checks > 0 ? (plural(static_cast<std::size_t>(options.checks), "more call") + " verified").c_str()
                                 : "results not verified");
  const char* figures = "      time   algbw   busbw #wrong";
  const char* units = "      (us)  (GB/s)  (GB/s)       ";
  const char* stats = options.stats ? "      min   median      p99      max    cv" : "";
  const char* stat_units = options.stats ? "     (us)     (us)     (us)     (us)   (%)" : "";
  const int width = options.stats ? 75 : 33;
  std::printf("#\n# %11s %12s %9s %6s %6s%*s%*s\n", "", "", "", "", "", width, "out-of-place", width, "in-place");
  std::printf("# %11s %12s %9s %6s %6s%s%s%s%s\n", "size", "count", "type", "redop", "root", figures, stats, figures,
              stats);
  std::printf("# %11s %12s %9s %6s %6s%s%s%s%s\n", "(B)", "(elements)", "", "", "", units, stat_units, units,
              stat_units);
  std::fflush(stdout);
}

void print_row(const Options& options, const Row& row) {
  const Case& of = row.of;
  const std::string root = has_root(of.collective) ? std::to_string(of.root) : "-1";
  std::printf("%13zu %12zu %9s %6s %6s", of.bytes, of.count, anello_dtype_name(of.dtype),
              reduces(of.collective) ? anello_op_name(of.op) : "none", root.c_str());
  print_figures(options, of, row.out_of_place);
  print_figures(options, of, row.in_place);
  std::printf("\n");
  std::fflush(stdout);
}

void print_footer(const Options& options, std::optional<std::int64_t> wrong, double average_bus_bandwidth) {
  if (wrong) {
    std::printf("# Out of bounds values : %" PRId64 " %s\n", *wrong, *wrong == 0 ? "OK" : "FAILED");
  } else {
    std::printf("# Out of bounds values : not verified\n");
  }
  std::printf("# Avg bus bandwidth    : %.5g GB/s", average_bus_bandwidth);
  if (options.min_bus_bandwidth > 0) {
    const bool enough = average_bus_bandwidth >= options.min_bus_bandwidth;
    std::printf(", at least %g asked for: %s", options.min_bus_bandwidth, enough ? "OK" : "FAILED");
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace perf
