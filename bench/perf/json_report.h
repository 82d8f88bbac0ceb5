#pragma once
// The report for programs: one JSON object, with nccl-tests' names for the rows.
#include "perf/ceilings.h"
#include "perf/measurement.h"
#include "perf/options.h"
#include "perf/participants.h"

#include <optional>
#include <vector>

namespace perf {

// Throws std::runtime_error naming the file.
void write_json(const Options& options, const std::vector<Participant>& ranks, const std::optional<Ceilings>& ceilings,
                const std::vector<Row>& rows, std::optional<std::int64_t> wrong, double average_bus_bandwidth);

}  // namespace perf
