// One measurement of any call: batches that grow until they are long enough, then as many as fit in the window. It also
// records the load of other processes, and the placement of the ranks' processors before and after.
#pragma once

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "meeting.h"
#include "options.h"
#include "processors.h"
#include "wire.h"

namespace compare {

class Series final {
 public:
  Series(const Options& options, Meeting& meeting, std::string version)
      : options_(options),
        meeting_(meeting),
        version_(std::move(version)),
        own_cores_(options.pin && static_cast<size_t>(meeting.size()) <= options.processors) {}

  // batch(calls) runs, times and verifies that many calls and returns the seconds of one, on the slowest rank. least:
  // the bytes that every implementation of the call must move between all ranks together.
  template <typename Batch>
  void measure(size_t bytes, bool dirty, int most_calls, double least, Batch batch) {
    double line_before = meeting_.line_ns(own_cores_);
    while (options_.line_ns > 0 && line_before > 0 && !usual(line_before) && patience_ > 0) {
      usleep(20000);
      patience_ -= 0.02;
      line_before = meeting_.line_ns(own_cores_);
    }
    // The first batch connects and warms up; then batches grow until they are long enough.
    double seconds = batch(1);
    int calls = seconds < options_.window ? std::min(2, most_calls) : 1;
    for (int attempt = 0; attempt < 2 && seconds < options_.window; ++attempt)
      seconds = std::min(seconds, batch(calls));
    while (calls < most_calls && seconds * calls < options_.batch) {
      calls = std::min(most_calls, calls * 4);
      seconds = batch(calls);
    }
    const double sent = meeting_.gather(tcp_bytes_sent()).sum;
    const double machine = machine_cpu_seconds();
    const double own = meeting_.gather(now_seconds(CLOCK_PROCESS_CPUTIME_ID)).sum;
    const double begin = now_seconds();
    std::vector<double> times;
    do {
      times.push_back(batch(calls));
    } while (meeting_.decided(now_seconds() - begin < options_.window) > 0);
    const double elapsed = now_seconds() - begin;
    const double own_used = meeting_.gather(now_seconds(CLOCK_PROCESS_CPUTIME_ID)).sum - own;
    const double others = (machine_cpu_seconds() - machine - own_used) / elapsed;
    const double per_call =
        (meeting_.gather(tcp_bytes_sent()).sum - sent) / (calls * static_cast<double>(times.size()));
    check_transport(bytes, per_call, least);
    const double line_after = meeting_.line_ns(own_cores_);
    if (meeting_.rank() == 0)
      report(bytes, dirty, calls, times, std::max(0.0, others), own_used / elapsed, line_before, line_after);
  }

 private:
  // The placement of virtual processors changes for seconds at a time, and the results change with it. The line's time
  // is the same on every rank, so all ranks wait equally long.
  bool usual(double line) const {
    constexpr double kFactor = 1.5;
    return line < options_.line_ns * kFactor && line * kFactor > options_.line_ns;
  }

  // A library that finds its peers on this host may take another path than the configured one.
  void check_transport(size_t bytes, double sent, double least) const {
    if (options_.transport == "tcp" && sent < 0.9 * least)
      throw std::runtime_error("not over TCP: " + std::to_string(sent) + " bytes sent a call of " +
                               std::to_string(bytes));
    if (options_.transport == "shm" && bytes >= 1024 && sent > 0.1 * least)
      throw std::runtime_error("not over shared memory: " + std::to_string(sent) + " bytes sent over TCP a call");
  }

  void report(size_t bytes, bool dirty, int calls, std::vector<double> times, double others, double own,
              double line_before, double line_after) const {
    std::FILE* out = std::fopen(options_.out.c_str(), "ae");
    if (out == nullptr) throw std::runtime_error("cannot write " + options_.out);
    std::fprintf(out, "{\"operation\": \"%s\", \"bytes\": %zu, \"dirty\": %s, \"ranks\": %d, \"calls\": %d, ",
                 options_.operation.c_str(), bytes, dirty ? "true" : "false", meeting_.size(), calls);
    std::fprintf(out, "\"others\": %.3f, \"own\": %.3f, \"line_ns\": [%.1f, %.1f], \"batches\": %zu, \"batch_us\": [",
                 others, own, line_before, line_after, times.size());
    const size_t stride = (times.size() + 63) / 64;
    for (size_t i = 0; i < times.size(); i += stride) std::fprintf(out, "%s%.4f", i == 0 ? "" : ", ", times[i] * 1e6);
    std::sort(times.begin(), times.end());
    const size_t half = times.size() / 2;
    const double median = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
    std::fprintf(out, "], \"min_us\": %.4f, \"median_us\": %.4f, \"p90_us\": %.4f, \"version\": \"%s\"}\n",
                 times.front() * 1e6, median * 1e6, times[times.size() * 9 / 10] * 1e6, version_.c_str());
    std::fclose(out);
  }

  const Options& options_;
  Meeting& meeting_;
  const std::string version_;
  const bool own_cores_;
  double patience_ = 2;  // seconds that remain for waiting for the requested placement
};

}  // namespace compare
