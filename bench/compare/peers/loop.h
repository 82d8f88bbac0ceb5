// The timing loop of bench/compare: one source for every library, so that rows differ only by the library.
//
// A library is a class with
//   Library(const Options&)                  joins the job (the process is pinned before)
//   int rank() const, int size() const
//   std::string version() const
//   void prepare(float* data, size_t count)  collective, before the calls on a buffer; data outlives them
//   void allreduce()                         sums the prepared buffer in place
//   void release()                           after the last call on the buffer
//   void* allocate(size_t bytes), void deallocate(void*)   if the library has its own allocator for buffers
//   void operate(Operation, const float* in, float* out, size_t count)   if it does other collectives (collectives.h)
//   void check()                             if it forms no sums (a ceiling): throws if its data did not arrive
// and main() is `return compare::run<Library>(argc, argv);`.
//
// untouched: calls run back to back on the buffer that the previous call left. Values grow by the number of ranks in
//   each call, so they start at 2^-110 and a batch ends before 2^117.
// dirty: every rank multiplies its buffer by its own weight before each call. The weights of all ranks sum to 1, so
//   each call restores the values; the time of the multiplication alone (measured after each batch, the minimum of all)
//   is subtracted.
// Each batch begins with different values on every rank and ends with a comparison of all elements on all ranks.
// The arithmetic is a chain, so a wrong result of any call of the batch is still visible at its end. If the number of
// ranks is a power of two (always in dirty batches), values are exact and the comparison is for equality.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <vector>

#include "collectives.h"
#include "memory.h"
#include "meeting.h"
#include "options.h"
#include "processors.h"
#include "series.h"

namespace compare {

template <typename Library>
class Loop final {
 public:
  Loop(const Options& options, Library& library, Meeting& meeting)
      : options_(options), library_(library), meeting_(meeting), series_(options, meeting, library.version()) {
    const int n = meeting.size();
    int scale = 1;
    while (scale < n * n) scale *= 2;
    const int last_extra = meeting.rank() == n - 1 ? scale - n * n : 0;  // (2r+1) summed over all ranks is n*n
    weight_ = static_cast<float>(2 * meeting.rank() + 1 + last_extra) / static_cast<float>(scale);
    most_calls_ = n == 1 ? 200 : static_cast<int>(217.0 / std::log2(n));
  }

  void measure(size_t bytes) {
    const size_t count = std::max<size_t>(1, bytes / sizeof(float));
    const Memory<Library> memory(library_, count * sizeof(float));
    data_ = memory.floats();
    count_ = count;
    library_.prepare(data_, count_);
    if (options_.untouched) series(false);
    if (options_.dirty) series(true);
    library_.release();
  }

 private:
  // The values 1..1021 repeat, so a shift by a power of two or swapped blocks are found.
  static constexpr size_t kPeriod = 1021;

  // A ceiling that moves bytes without adding them cannot be checked against sums.
  static constexpr bool kSums = !requires(Library & library) { library.check(); };

  // It is not inlined: the rewriting between calls and the rewriting that is timed separately must be the same code, or
  // the subtraction would be wrong.
  [[gnu::noinline]] void scale(float factor) {
    float* const data = data_;
    const size_t count = count_;
    for (size_t i = 0; i < count; ++i) data[i] *= factor;
    asm volatile("" ::: "memory");  // The peers see each pass as a separate rewrite.
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

  // The seconds of one call, on the slowest rank.
  double run_batch(bool dirty, int calls) {
    const float start = dirty ? 1.0f : std::ldexp(1.0f, -110);
    fill(weight_ * start);
    meeting_.barrier();
    library_.allreduce();  // Untimed: the buffer is hot in its writer's cache, and ranks leave the barrier apart.
    const double t0 = now_seconds();
    for (int call = 0; call < calls; ++call) {
      if (dirty) scale(kSums ? weight_ : 1.0f);  // If nothing is added, weights would lead to denormal numbers.
      library_.allreduce();
    }
    double seconds = now_seconds() - t0;
    meeting_.barrier();  // A rank that already verifies would keep others of its processor from reading the clock.
    const int n = meeting_.size();
    const bool exact = dirty || (n & (n - 1)) == 0;
    const double factor = dirty ? 1.0 : static_cast<double>(start) * std::pow(n, calls);
    if constexpr (kSums)
      verify(factor, exact ? 0 : 1e-6 * (calls + 1));
    else
      library_.check();
    seconds = meeting_.gather(seconds).largest;
    if (dirty) {
      volatile float one = 1.0f;
      const double t2 = now_seconds();
      for (int call = 0; call < calls; ++call) scale(one);
      // The minimum over all batches: an interruption during the separate multiplication must not make the calls look
      // faster.
      rewrite_ = std::min(rewrite_, meeting_.gather(now_seconds() - t2).largest / calls);
      seconds -= rewrite_ * calls;
    }
    return seconds / calls;
  }

  void series(bool dirty) {
    rewrite_ = 1e9;
    const size_t bytes = count_ * sizeof(float);
    const double least = kSums ? 2.0 * static_cast<double>(bytes) * (meeting_.size() - 1) : 0;
    series_.measure(bytes, dirty, kSums ? most_calls_ : 200, least, [&](int calls) { return run_batch(dirty, calls); });
  }

  const Options& options_;
  Library& library_;
  Meeting& meeting_;
  Series series_;
  double rewrite_ = 0;  // seconds of multiplying the buffer once
  float weight_;
  int most_calls_;
  float* data_ = nullptr;
  size_t count_ = 0;
};

template <typename Library>
void measure_all(const Options& options, Library& library, Meeting& meeting) {
  constexpr bool kOperates = requires {
    library.operate(Operation::kBarrier, static_cast<const float*>(nullptr), nullptr, size_t{});
  };
  if (options.operation == "allreduce") {
    Loop<Library> loop(options, library, meeting);
    for (const size_t bytes : options.sizes) loop.measure(bytes);
  } else if constexpr (kOperates) {
    Collectives<Library> loop(options, library, meeting);
    for (const size_t bytes : options.sizes) loop.measure(bytes);
  } else {
    throw std::runtime_error("this loop does nothing but all-reduce");
  }
}

template <typename Library>
int run(int argc, char** argv) {
  try {
    Options options = parse(argc, argv);
    alarm(static_cast<unsigned>(options.limit) + 1);  // Ends a rank whose library never returns and whose parent died.
    const std::vector<int> processors = allowed_processors();
    options.processors = std::max<size_t>(1, processors.size());
    if (options.pin && !processors.empty())
      pin_to(processors[static_cast<size_t>(launched_rank()) % processors.size()]);
    Library library(options);
    Meeting meeting(options.meeting, library.rank(), library.size(), options.processors, options.limit);
    try {
      measure_all(options, library, meeting);
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
