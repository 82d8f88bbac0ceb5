#pragma once
// The report for people: nccl-tests' lines, which rank 0 prints as rows arrive.
#include "perf/ceilings.h"
#include "perf/measurement.h"
#include "perf/options.h"
#include "perf/participants.h"

#include <optional>
#include <vector>

namespace perf {

void print_header(const Options& options, const std::vector<Participant>& ranks,
                  const std::optional<Ceilings>& ceilings);
void print_row(const Options& options, const Row& row);
// wrong: none if nothing was verified.
void print_footer(const Options& options, std::optional<std::int64_t> wrong, double average_bus_bandwidth);

}  // namespace perf
