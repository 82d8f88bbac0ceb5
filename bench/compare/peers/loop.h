// The timing loop of bench/compare: one source for every library, so that rows differ by the library alone.
//
// A library is a class with
//   Library(const Options&)                  joins the job (the process is pinned before)
//   int rank() const, int size() const
//   std::string version() const
//   void prepare(float* data, size_t count)  collective, before the calls on a buffer; data outlives them
//   void allreduce()                         sums the prepared buffer in place
//   void release()                           after the last call on the buffer
// and main() is `return compare::run<Library>(argc, argv);`.
//
// untouched: calls back to back on the buffer as the call before left it. Values grow by the number of ranks a call,
//   so they start at 2^-110 and a batch ends before 2^117.
// dirty: every rank multiplies its buffer by its own weight before each call. The weights of all ranks sum to 1, so
//   that each call restores the values; what multiplying alone costs (timed after each batch, the least of all) is
//   subtracted.
// Each batch begins with different values on every rank and ends with a comparison of all elements on all ranks.
// The arithmetic is a chain, so a wrong result of any call of the batch is still there at its end. Where the number
// of ranks is a power of two (always when dirty) values are exact and the comparison is for equality.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "meeting.h"

namespace compare {

struct Options {
  std::string meeting;     // --meeting FILE: see meeting.h
  std::string out;         // --out FILE: rank 0 appends a JSON line a measurement
  std::string directory;   // --directory DIR: for the library's own rendezvous files
  std::string setting;     // --setting TEXT: whatever the library makes of it
  std::string transport;   // --transport shm|tcp
  std::vector<size_t> sizes;
  double window = 0.15;    // --window SECONDS: for one size and variant
  double batch = 0.002;    // --batch SECONDS: a batch is at least this long, where values allow it
  double limit = 120;      // --limit SECONDS: for the whole process
  double line_ns = 0;      // --line NS: waits, up to 2 s in all, until a cache line takes about this long
  bool pin = true;         // --pin 0|1: rank r to processor r modulo their number
  bool untouched = true;   // --variants untouched,dirty
  bool dirty = true;
};

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--meeting") options.meeting = value;
    else if (name == "--out") options.out = value;
    else if (name == "--directory") options.directory = value;
    else if (name == "--setting") options.setting = value;
    else if (name == "--transport") options.transport = value;
    else if (name == "--window") options.window = std::stod(value);
    else if (name == "--batch") options.batch = std::stod(value);
    else if (name == "--limit") options.limit = std::stod(value);
    else if (name == "--line") options.line_ns = std::stod(value);
    else if (name == "--pin") options.pin = value == "1";
    else if (name == "--variants") {
      options.untouched = value.find("untouched") != std::string::npos;
      options.dirty = value.find("dirty") != std::string::npos;
    } else if (name == "--sizes") {
      std::istringstream list(value);
      for (std::string size; std::getline(list, size, ',');) options.sizes.push_back(std::stoull(size));
    } else {
      throw std::runtime_error("unknown option " + name);
    }
  }
  if (argc % 2 == 0) throw std::runtime_error("options come in pairs: --name value");
  if (options.meeting.empty() || options.out.empty() || options.sizes.empty())
    throw std::runtime_error("--meeting, --out and --sizes are needed; bench/compare/compare gives them");
  return options;
}

// The number of this rank on its host as the launchers say it; known before the library has joined anything.
inline int launched_rank() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK", "RANK"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

inline std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
  return processors;
}

// Threads that a library makes later inherit the processor.
inline void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

// Seconds of processor time that the whole machine has used or that its host took away. Interrupts are left out:
// they are the loop's own packets.
inline double machine_cpu_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return (user + nice + system + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

template <typename Library>
class Loop final {
 public:
  Loop(const Options& options, Library& library, Meeting& meeting, size_t processors)
      : options_(options), library_(library), meeting_(meeting), processors_(processors) {
    const int n = meeting.size();
    int scale = 1;
    while (scale < n * n) scale *= 2;
    const int last_extra = meeting.rank() == n - 1 ? scale - n * n : 0;  // (2r+1) summed over all ranks is n*n
    weight_ = static_cast<float>(2 * meeting.rank() + 1 + last_extra) / static_cast<float>(scale);
    most_calls_ = n == 1 ? 200 : static_cast<int>(217.0 / std::log2(n));
  }

  void measure(size_t bytes) {
    const size_t count = std::max<size_t>(1, bytes / sizeof(float));
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
    const size_t room = (count * sizeof(float) + alignment - 1) / alignment * alignment;
    const std::unique_ptr<float, decltype(&std::free)> buffer(
        static_cast<float*>(std::aligned_alloc(alignment, room)), &std::free);
    if (!buffer) throw std::runtime_error("out of memory");
    data_ = buffer.get();
    count_ = count;
    std::memset(data_, 0, room);
    library_.prepare(data_, count_);
    if (options_.untouched) series(false);
    if (options_.dirty) series(true);
    library_.release();
  }

 private:
  // Values 1..1021 over and over: neither a shift by a power of two nor swapped blocks go unseen.
  static constexpr size_t kPeriod = 1021;

  // Virtual processors change places for seconds at a time, and what is measured changes with them. The line's time is
  // the same on every rank, so all go on waiting together.
  bool usual(double line) const {
    constexpr double kFactor = 1.5;
    return line < options_.line_ns * kFactor && line * kFactor > options_.line_ns;
  }

  void scale(float factor) {
    float* const data = data_;
    const size_t count = count_;
    for (size_t i = 0; i < count; ++i) data[i] *= factor;
    asm volatile("" ::: "memory");  // Each pass is a rewrite of its own, as the peers see it.
  }

  void fill(float factor) {
    size_t residue = 0;
    for (size_t i = 0; i < count_; ++i) {
      data_[i] = static_cast<float>(residue + 1) * factor;
      if (++residue == kPeriod) residue = 0;
    }
  }

  void verify(double factor, double tolerance) {
    size_t residue = 0;
    for (size_t i = 0; i < count_; ++i) {
      const double expected = static_cast<double>(residue + 1) * factor;
      if (!(std::fabs(data_[i] - expected) <= tolerance * expected)) {
        std::ostringstream text;
        text << "wrong result: element " << i << " of " << count_ << " is " << data_[i] << ", not " << expected;
        throw std::runtime_error(text.str());
      }
      if (++residue == kPeriod) residue = 0;
    }
  }

  // Seconds of one call, on the slowest rank.
  double run_batch(bool dirty, int calls) {
    const float start = dirty ? 1.0f : std::ldexp(1.0f, -110);
    fill(weight_ * start);
    meeting_.barrier();
    library_.allreduce();  // Untimed: the buffer is hot in its writer's cache, and ranks leave the barrier apart.
    const double t0 = now_seconds();
    for (int call = 0; call < calls; ++call) {
      if (dirty) scale(weight_);
      library_.allreduce();
    }
    double seconds = now_seconds() - t0;
    const int n = meeting_.size();
    const bool exact = dirty || (n & (n - 1)) == 0;
    verify(dirty ? 1.0 : static_cast<double>(start) * std::pow(n, calls), exact ? 0 : 1e-6 * (calls + 1));
    seconds = meeting_.gather(seconds).largest;
    if (dirty) {
      volatile float one = 1.0f;
      const double t2 = now_seconds();
      for (int call = 0; call < calls; ++call) scale(one);
      // The least of all batches: an interruption while multiplying alone must not make the calls look faster.
      rewrite_ = std::min(rewrite_, meeting_.gather(now_seconds() - t2).largest / calls);
      seconds -= rewrite_ * calls;
    }
    return seconds / calls;
  }

  void series(bool dirty) {
    rewrite_ = 1e9;
    const bool own_cores = options_.pin && static_cast<size_t>(meeting_.size()) <= processors_;
    double line_before = meeting_.line_ns(own_cores);
    while (options_.line_ns > 0 && line_before > 0 && !usual(line_before) && patience_ > 0) {
      usleep(20000);
      patience_ -= 0.02;
      line_before = meeting_.line_ns(own_cores);
    }
    // The first batch connects and warms up; then batches grow until they are long enough.
    double seconds = run_batch(dirty, 1);
    int calls = seconds < options_.window ? 2 : 1;
    for (int attempt = 0; attempt < 2 && seconds < options_.window; ++attempt)
      seconds = std::min(seconds, run_batch(dirty, calls));
    while (calls < most_calls_ && seconds * calls < options_.batch) {
      calls = std::min(most_calls_, calls * 4);
      seconds = run_batch(dirty, calls);
    }
    const double machine = machine_cpu_seconds();
    const double own = meeting_.gather(now_seconds(CLOCK_PROCESS_CPUTIME_ID)).sum;
    const double begin = now_seconds();
    std::vector<double> times;
    do {
      times.push_back(run_batch(dirty, calls));
    } while (meeting_.decided(now_seconds() - begin < options_.window) > 0);
    const double elapsed = now_seconds() - begin;
    const double own_used = meeting_.gather(now_seconds(CLOCK_PROCESS_CPUTIME_ID)).sum - own;
    const double others = (machine_cpu_seconds() - machine - own_used) / elapsed;
    const double line_after = meeting_.line_ns(own_cores);
    if (meeting_.rank() == 0)
      report(dirty, calls, times, std::max(0.0, others), own_used / elapsed, line_before, line_after);
  }

  void report(bool dirty, int calls, std::vector<double> times, double others, double own, double line_before,
              double line_after) const {
    std::FILE* out = std::fopen(options_.out.c_str(), "ae");
    if (out == nullptr) throw std::runtime_error("cannot write " + options_.out);
    std::fprintf(out, "{\"bytes\": %zu, \"dirty\": %s, \"ranks\": %d, \"calls\": %d, \"others\": %.3f, \"own\": %.3f, ",
                 count_ * sizeof(float), dirty ? "true" : "false", meeting_.size(), calls, others, own);
    std::fprintf(out, "\"line_ns\": [%.1f, %.1f], \"verified\": true, \"batches\": %zu, \"batch_us\": [", line_before,
                 line_after, times.size());
    const size_t stride = (times.size() + 63) / 64;
    for (size_t i = 0; i < times.size(); i += stride)
      std::fprintf(out, "%s%.4f", i == 0 ? "" : ", ", times[i] * 1e6);
    std::sort(times.begin(), times.end());
    const size_t half = times.size() / 2;
    const double median = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
    std::fprintf(out, "], \"min_us\": %.4f, \"median_us\": %.4f, \"p90_us\": %.4f, \"version\": \"%s\"}\n",
                 times.front() * 1e6, median * 1e6, times[times.size() * 9 / 10] * 1e6, library_.version().c_str());
    std::fclose(out);
  }

  const Options& options_;
  Library& library_;
  Meeting& meeting_;
  const size_t processors_;
  double rewrite_ = 0;   // seconds of multiplying the buffer once
  double patience_ = 2;  // seconds that may still be spent waiting for the placement asked for
  float weight_;
  int most_calls_;
  float* data_ = nullptr;
  size_t count_ = 0;
};

template <typename Library>
int run(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    alarm(static_cast<unsigned>(options.limit) + 1);  // Ends a rank whose library never returns and whose parent died.
    const std::vector<int> processors = allowed_processors();
    if (options.pin && !processors.empty())
      pin_to(processors[static_cast<size_t>(launched_rank()) % processors.size()]);
    Library library(options);
    Meeting meeting(options.meeting, library.rank(), library.size(), options.limit);
    try {
      Loop<Library> loop(options, library, meeting, processors.size());
      for (const size_t bytes : options.sizes) loop.measure(bytes);
    } catch (...) {
      meeting.fail();
      throw;
    }
    meeting.barrier();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", launched_rank(), error.what());
    std::fflush(nullptr);
    _exit(1);  // Leaving through a library whose peers are gone may never end.
  }
}

}  // namespace compare
