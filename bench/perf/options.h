#pragma once
// The command line: nccl-tests' flags, and what Anello adds.
#include "perf/buffer.h"
#include "perf/collective.h"

#include <anello/anello.h>

#include <cstddef>
#include <string>
#include <vector>

namespace perf {

// The cases to measure in turn; for collectives that only move data, op does not matter.
struct Reduction {
  anello_dtype_t dtype;
  anello_op_t op;
};

struct Options {
  Collective collective = Collective::allreduce;
  std::size_t min_bytes = std::size_t{32} << 20;
  std::size_t max_bytes = std::size_t{32} << 20;
  std::size_t step_bytes = std::size_t{1} << 20;
  double factor = 0;  // 0: step_bytes counts
  int iterations = 20;
  int warmup = 1;
  int checks = 1;
  std::vector<Reduction> reductions{{ANELLO_FLOAT32, ANELLO_SUM}};
  std::size_t skipped = 0;  // the number of invalid pairs of -d and -o
  int root = 0;             // -1: each in turn
  bool threads = false;
  int thread_count = 0;
  bool stats = false;
  bool dirty = false;
  Memory memory = Memory::allocated;
  bool ceilings = true;
  bool explain = false;
  std::string json;
  double min_bus_bandwidth = 0;  // GB/s; 0: no limit

  // The sizes from min_bytes to max_bytes.
  std::vector<std::size_t> sizes() const;
};

// False if there is nothing to run: it has printed help or a mistake; exit_code says which.
bool parse(int argc, char** argv, Options& options, int& exit_code);

}  // namespace perf
