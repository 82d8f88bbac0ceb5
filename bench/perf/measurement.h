#pragma once
// One row of the table: runs, times and verifies a case, out of place and in place. Every rank calls measure with the
// same case, and every rank gets the same row.
#include "perf/buffer.h"
#include "perf/collective.h"
#include "perf/options.h"

#include <cstdint>
#include <optional>

namespace perf {

struct Figures {
  double time_us = 0;
  double minimum_us = 0;  // of single calls, like the next four; with --stats only
  double maximum_us = 0;
  double variation = 0;  // the standard deviation, relative to their mean
  double median_us = 0;
  double p99_us = 0;
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;
  std::optional<std::int64_t> wrong;  // none: not verified
};

struct Row {
  Case of;
  std::optional<Figures> out_of_place;
  std::optional<Figures> in_place;
};

class Measurement {
 public:
  Measurement(const Options& options, anello_comm_t comm);

  // Throws Failure.
  Row measure(const Case& of);

 private:
  enum class Place { out, in };

  Figures figures(const Case& of, Place place);
  void prepare(const Case& of, Place place, std::uint64_t seed);
  void call(const Case& of, Place place);
  std::vector<double> time_calls(const Case& of, Place place, std::vector<int>& sizes);
  std::int64_t verify(const Case& of, Place place, std::uint64_t seed);
  std::int64_t verify_barrier();
  // Whether this rank's input lies in send_: gather and scatter are in place only at their root.
  bool sends_apart(const Case& of, Place place) const;
  std::int64_t differing(const Case& of, Place place, std::uint64_t seed) const;
  std::int64_t differing_parts(const Case& of, std::uint64_t seed, std::size_t first) const;

  const Options& options_;
  anello_comm_t comm_;
  int rank_ = 0;
  int ranks_ = 1;
  Buffer send_;
  Buffer receive_;
};

}  // namespace perf
