#include "perf/options.h"

#include "perf/pattern.h"

#include "shared/command_line.h"
#include "shared/manual.h"

#include <sched.h>

#include <algorithm>
#include <map>

namespace perf {
namespace {

constexpr const char* kColumns = R"(Columns, as of nccl-tests:
  size    bytes of the larger buffer of one rank; count: elements, as the C function takes them
  time    of one call, the slowest rank's: the n calls run back to back in up to ten batches, and this is the median
          over batches of a batch's time divided by its calls
  algbw   size / time; 1 GB = 10^9 bytes
  busbw   algbw times 2(n-1)/n (allreduce), (n-1)/n (allgather, reduce_scatter, gather, scatter, alltoall)
          or 1: comparable over rank counts
  #wrong  elements, of all ranks and checks, that differ from the expected value, plus bytes written beside a buffer
-I adds minimum, median, 99th percentile, maximum and coefficient of variation of single calls, each call with its
slowest rank's time; reading the clock around each call adds some 25 ns to it. Buffers are the same in every call, so
small ones stay in the caches; --dirty rewrites the input before each call, outside the measured time.

Examples:
  anellorun -np 4 anello-perf -b 8 -e 64M -f 4                  allreduce of 8 B to 64 MiB
  anellorun -np 4 -x ANELLO_TRANSPORT=tcp anello-perf -b 1K -e 1M -f 2 --collective allgather
  anello-perf --ranks threads -t 4 -b 1M -e 1M -d all -o all    every type and operation, between threads
  anellorun -np 2 anello-perf -b 64K -e 64M -f 4 -I --memory mapped     memory that both reach, and how much calls vary
  anellorun -np 2 anello-perf -b 64M --min-busbw 2              as a check: fails below 2 GB/s

Exit code: 0; 1 for wrong values or a bandwidth below --min-busbw; 2 for a mistake in the options; 3 when
a call fails.)";

template <class Value>
std::vector<Value> listed(const std::string& words, const std::map<std::string, Value>& names, const char* what) {
  std::vector<Value> values;
  if (words == "all") {
    for (const auto& [word, value] : names) {
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    return values;
  }
  for (const std::string& word : CLI::detail::split(words, ',')) {
    const auto found = names.find(word);
    if (found == names.end()) throw CLI::ValidationError(what, "'" + word + "' is not known; see --help");
    values.push_back(found->second);
  }
  return values;
}

// The library's own name of each, and nccl-tests' names.
std::map<std::string, anello_dtype_t> dtypes_by_name() {
  std::map<std::string, anello_dtype_t> names{{"float", ANELLO_FLOAT32},
                                              {"double", ANELLO_FLOAT64},
                                              {"half", ANELLO_FLOAT16},
                                              {"f8e4m3", ANELLO_FLOAT8_E4M3},
                                              {"f8e5m2", ANELLO_FLOAT8_E5M2}};
  for (int dtype = ANELLO_FLOAT32; dtype <= ANELLO_INT64_INT; ++dtype) {
    names.emplace(anello_dtype_name(static_cast<anello_dtype_t>(dtype)), static_cast<anello_dtype_t>(dtype));
  }
  return names;
}
std::map<std::string, anello_op_t> ops_by_name() {
  std::map<std::string, anello_op_t> names;
  for (int op = ANELLO_SUM; op <= ANELLO_MAXLOC; ++op) {
    names.emplace(anello_op_name(static_cast<anello_op_t>(op)), static_cast<anello_op_t>(op));
  }
  return names;
}

// The valid pairs of -d and -o, by type.
std::vector<Reduction> reductions(const std::vector<anello_dtype_t>& dtypes, const std::vector<anello_op_t>& ops,
                                  bool reduces) {
  std::vector<Reduction> pairs;
  for (const anello_dtype_t dtype : dtypes) {
    for (const anello_op_t op : ops) {
      if (!reduces || makes_sense(dtype, op)) pairs.push_back({dtype, op});
    }
  }
  if (pairs.empty()) {
    throw CLI::ValidationError("-o", std::string(anello_op_name(ops.front())) + " of " +
                                         anello_dtype_name(dtypes.front()) + " makes no sense; see --help");
  }
  return pairs;
}

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

std::vector<std::size_t> Options::sizes() const {
  if (collective == Collective::barrier) return {0};
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = min_bytes; bytes <= max_bytes;) {
    sizes.push_back(bytes);
    const auto next = factor > 0 ? static_cast<std::size_t>(static_cast<double>(bytes) * factor) : bytes + step_bytes;
    if (next <= bytes) break;
    bytes = next;
  }
  return sizes;
}

bool parse(int argc, char** argv, Options& options, int& exit_code) {
  CLI::App app("anello-perf: latency and bandwidth of Anello's collectives, every result verified.", "anello-perf");
  app.footer(kColumns);
  shared::add_manual(app);
  std::string types = "float32", ops = "sum", ranks = "processes";
  std::string collective = "allreduce";
  app.add_option("--collective", collective,
                 "allreduce (default), broadcast, reduce, allgather, gather, scatter, "
                 "alltoall, reduce_scatter, scan, barrier or sendrecv (to the next rank, from the previous one)")
      ->type_name("NAME");
  app.add_option("-b,--minbytes", options.min_bytes, "Smallest size, with K, M or G (default 32M)")
      ->transform(shared::size())
      ->type_name("SIZE");
  const CLI::Option* const most =
      app.add_option("-e,--maxbytes", options.max_bytes, "Largest size (default: the smallest)")
          ->transform(shared::size())
          ->type_name("SIZE");
  app.add_option("-i,--stepbytes", options.step_bytes, "Bytes from one size to the next (default 1M)")
      ->transform(shared::size())
      ->type_name("SIZE");
  app.add_option("-f,--stepfactor", options.factor, "Factor from one size to the next, instead of -i")
      ->check(shared::number(1.0001, 1e6))
      ->type_name("X");
  app.add_option("-n,--iters", options.iterations, "Measured calls (default 20)")
      ->check(shared::whole(1, 10000000))
      ->type_name("N");
  app.add_option("-w,--warmup_iters", options.warmup, "Calls before that (default 1)")
      ->check(shared::whole(0, 10000000))
      ->type_name("N");
  app.add_option("-c,--check", options.checks,
                 "Calls after that whose results are verified, with other data "
                 "(default 1; 0: none)")
      ->check(shared::whole(0, 1000))
      ->type_name("N");
  app.add_option("-o,--op", ops,
                 "sum (default), prod, min, max, avg, band, bor, bxor, land, lor, lxor, minloc, maxloc, a "
                 "list, or all")
      ->type_name("OP");
  app.add_option(
         "-d,--datatype", types,
         "float32 or float (default), float64 or double, float16 or half, bfloat16, "
         "float8_e4m3, float8_e5m2, int8 to int64, uint8 to uint64, bool, complex64, complex128, byte, "
         "float32_int, float64_int, int32_int, int64_int, a list, or all. Pairs of type and operation that make "
         "no sense are skipped")
      ->type_name("TYPE");
  app.add_option("-r,--root", options.root, "Root of broadcast (default 0); -1: each rank in turn")
      ->check(shared::whole(-1, 1 << 20))
      ->type_name("RANK");
  app.add_option("--ranks", ranks,
                 "processes (default): this one is a rank of a job that a launcher started; or "
                 "threads of this process")
      ->transform(shared::one_of({"processes", "threads"}))
      ->type_name("KIND");
  app.add_option("-t,--nthreads", options.thread_count, "Number of ranks as threads (default: processors)")
      ->check(shared::whole(1, 1024))
      ->type_name("N");
  app.add_flag("-I,--stats", options.stats,
               "Adds columns for single calls: minimum, median, 99th percentile, maximum, and "
               "the coefficient of variation");
  std::map<std::string, Memory> memories;
  for (const Memory each : {Memory::allocated, Memory::mapped, Memory::registered, Memory::device})
    memories.emplace(memory_name(each), each);
  app.add_option("--memory", options.memory,
                 "Memory of the buffers: malloc (default), private to this rank; mapped, of a window that all "
                 "ranks of the host reach; registered, a rank's own memory registered as a window; device, a CUDA "
                 "device's, of rank modulo the number of devices")
      ->transform(shared::one_of(memories))
      ->type_name("KIND");
  app.add_flag("--dirty", options.dirty, "Rewrites the input before each call");
  app.add_flag("!--no-ceilings", options.ceilings, "Does not measure this host's limits");
  app.add_flag("--explain", options.explain, "Says before each size which algorithm the library chooses, and why");
  app.add_option("--json,-J", options.json, "Also writes the results to a file")->type_name("FILE");
  app.add_option("--min-busbw", options.min_bus_bandwidth, "Fails when the average bus bandwidth is below")
      ->check(shared::number(0, 1e9))
      ->type_name("GB/s");
  app.set_version_flag("--version", std::string("anello-perf " ANELLO_VERSION_STRING));
  try {
    app.parse(argc, argv);
    const auto found = collective_named(collective);
    if (!found) throw CLI::ValidationError("--collective", "'" + collective + "' is not known; see --help");
    options.collective = *found;
    if (most->empty()) options.max_bytes = options.min_bytes;
    options.step_bytes = std::max<std::size_t>(options.step_bytes, 1);
    if (options.max_bytes < options.min_bytes) throw CLI::ValidationError("-e", "is smaller than -b");
    if (options.factor > 0 && options.min_bytes == 0) throw CLI::ValidationError("-f", "never leaves -b 0; use -i");
    const auto dtypes = listed(types, dtypes_by_name(), "-d");
    const bool reduced = reduces(options.collective);
    auto wanted = reduced ? listed(ops, ops_by_name(), "-o") : std::vector{ANELLO_SUM};
    // The operations of "all" that a scan has.
    if (options.collective == Collective::scan) std::erase(wanted, ANELLO_AVG);
    if (wanted.empty()) throw CLI::ValidationError("-o", "scan has no avg");
    options.reductions = reductions(dtypes, wanted, reduced);
    options.skipped = dtypes.size() * wanted.size() - options.reductions.size();
    options.threads = ranks == "threads";
    if (!options.threads && options.thread_count > 1)
      throw CLI::ValidationError("-t", std::to_string(options.thread_count) + " ranks as threads need --ranks threads");
    if (options.thread_count == 0) options.thread_count = processors();
  } catch (const CLI::ParseError& error) {
    exit_code = shared::end(app, error);
    return false;
  }
  return true;
}

}  // namespace perf
