#include "perf/rank.h"

#include "perf/ceilings.h"
#include "perf/device.h"
#include "perf/explain.h"
#include "perf/failure.h"
#include "perf/json_report.h"
#include "perf/measurement.h"
#include "perf/participants.h"
#include "perf/table.h"
#include "shared/output_file.h"

#include <algorithm>
#include <cstdio>

namespace perf {
namespace {

// Over all measured cells, as in nccl-tests.
double average_bus_bandwidth(const std::vector<Row>& rows) {
  double sum = 0;
  int cells = 0;
  for (const Row& row : rows) {
    for (const auto* figures : {&row.out_of_place, &row.in_place}) {
      if (!*figures) continue;
      sum += (*figures)->bus_bandwidth;
      ++cells;
    }
  }
  return cells > 0 ? sum / cells : 0;
}

std::optional<std::int64_t> all_wrong(const Options& options, const std::vector<Row>& rows) {
  if (options.checks == 0) return std::nullopt;
  std::int64_t sum = 0;
  for (const Row& row : rows) {
    for (const auto* figures : {&row.out_of_place, &row.in_place}) {
      if (*figures) sum += (*figures)->wrong.value_or(0);
    }
  }
  return sum;
}

std::vector<Case> cases(const Options& options, int ranks) {
  std::vector<Case> all;
  const bool rooted = has_root(options.collective);
  const int first = rooted && options.root >= 0 ? options.root : 0;
  const int last = rooted && options.root < 0 ? ranks - 1 : first;
  for (const Reduction& reduction : options.reductions) {
    for (int root = first; root <= last; ++root) {
      for (std::size_t bytes : options.sizes()) {
        Case of;
        of.collective = options.collective;
        of.dtype = reduction.dtype;
        of.op = reduction.op;
        of.root = root;
        all.push_back(sized(of, bytes, ranks));
      }
    }
  }
  return all;
}

}  // namespace

int run_rank(const Options& options, anello_comm_t comm) {
  int rank = 0;
  int ranks = 1;
  check(anello_comm_rank(comm, &rank), "anello_comm_rank", comm);
  check(anello_comm_size(comm, &ranks), "anello_comm_size", comm);
  if (rank == 0 && !options.json.empty()) shared::check_writable(options.json);
  const std::vector<Participant> who = participants(comm);
  std::optional<Ceilings> ceilings;
  if (rank == 0 && options.ceilings) {
    const bool over_verbs = std::any_of(who.begin(), who.end(), [](const Participant& each) {
      return each.transports.find("verbs") != std::string::npos;
    });
    ceilings = measure_ceilings(over_verbs);
  }
  check(anello_barrier(comm), "anello_barrier", comm);
  if (rank == 0) print_header(options, who, ceilings);

  if (options.memory == Memory::device) {
    int local_rank = 0;
    check(anello_comm_local_rank(comm, &local_rank), "anello_comm_local_rank", comm);
    use_device(local_rank);
  }
  Measurement measurement(options, comm);
  std::vector<Row> rows;
  for (const Case& of : cases(options, ranks)) {
    if (rank == 0 && options.explain) std::printf("# %s\n", explained(of, options.memory, comm).c_str());
    rows.push_back(measurement.measure(of));
    if (rank == 0) print_row(options, rows.back());
  }
  const auto wrong = all_wrong(options, rows);
  const double average = average_bus_bandwidth(rows);
  if (rank == 0) {
    print_footer(options, wrong, average);
    if (!options.json.empty()) write_json(options, who, ceilings, rows, wrong, average);
  }
  // The figures are maxima and sums over all ranks, so all ranks get the same verdict.
  return wrong.value_or(0) > 0 || average < options.min_bus_bandwidth ? kExitWrong : 0;
}

}  // namespace perf
