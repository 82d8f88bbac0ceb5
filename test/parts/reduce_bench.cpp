// Rate of every reduction against plain memcpy of as many bytes and, where float32 has the operation, against that of
// as many bytes; interleaved in the same run; medians.
//   reduce_bench [bytes of one operand, default 67108864] [rounds, default 9] [level, default the best] [op, default
//   all]
// GB/s count what must move: memcpy reads and writes a byte, reduce in place reads two and writes one, accumulate of a
// 16-bit type reads 2 + 4 and writes 4 per element, of an 8-bit one 1 + 4 and 4.
#include "base/clock.h"
#include "kernels/reduce_levels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace anello::kernels {
namespace {

double seconds() { return static_cast<double>(now_ns()) * 1e-9; }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Seconds of one call, as the mean over enough calls to be seen by the clock.
template <class Call>
double timed(int calls, Call call) {
  const double start = seconds();
  for (int i = 0; i < calls; ++i) call();
  return (seconds() - start) / calls;
}

constexpr std::size_t kWidest = 4;  // bytes of an accumulator for a byte of its type: float32 for an 8-bit float

void measure(Level level, std::size_t bytes, int rounds, const char* only) {
  // Zeros: sums of them stay what they are, and the kernels do not branch on values.
  std::vector<unsigned char> from(bytes), into(bytes), accumulator(kWidest * bytes), source(bytes), target(bytes);
  const int calls = static_cast<int>(std::max<std::size_t>(1, (std::size_t{4} << 20) / bytes));
  std::printf("%zu bytes an operand, level %s, median of %d rounds\n", bytes, level_name(level), rounds);
  std::printf("%-12s %-6s %14s %14s %8s %10s %18s\n", "type", "op", "reduce [GB/s]", "memcpy [GB/s]", "ratio",
              "/float32", "accumulate [GB/s]");
  for (int dtype = 0; dtype < kDtypes; ++dtype) {
    for (int op = 0; op < kOps; ++op) {
      if (!makes_sense(static_cast<anello_dtype_t>(dtype), static_cast<anello_op_t>(op))) continue;
      if (only != nullptr && std::strcmp(only, op_name(static_cast<anello_op_t>(op))) != 0) continue;
      const Reducer& chosen = reducer(level, static_cast<anello_dtype_t>(dtype), static_cast<anello_op_t>(op));
      const std::size_t count = bytes / chosen.element_bytes;
      // Where float32 has not the operation, there is nothing to compare with.
      const bool compares = makes_sense(ANELLO_FLOAT32, static_cast<anello_op_t>(op));
      std::vector<double> reduces, copies, accumulates, floats;
      for (int round = 0; round < rounds; ++round) {
        if (compares) {
          const Reducer& float32 = reducer(level, ANELLO_FLOAT32, static_cast<anello_op_t>(op));
          floats.push_back(
              timed(calls, [&] { float32.reduce(into.data(), into.data(), from.data(), bytes / sizeof(float)); }));
        }
        copies.push_back(timed(calls, [&] { std::memcpy(target.data(), source.data(), bytes); }));
        reduces.push_back(timed(calls, [&] { chosen.reduce(into.data(), into.data(), from.data(), count); }));
        accumulates.push_back(timed(calls, [&] { chosen.accumulate(accumulator.data(), from.data(), count); }));
      }
      const double reduce_rate = 3e-9 * static_cast<double>(bytes) / median(reduces);
      const double copy_rate = 2e-9 * static_cast<double>(bytes) / median(copies);
      const double accumulated = static_cast<double>(count * (chosen.element_bytes + 2 * chosen.accumulator_bytes));
      char to_float32[16] = "";
      if (compares) std::snprintf(to_float32, sizeof to_float32, "%.2f", median(floats) / median(reduces));
      std::printf("%-12s %-6s %14.1f %14.1f %8.2f %10s %18.1f\n", dtype_name(static_cast<anello_dtype_t>(dtype)),
                  op_name(static_cast<anello_op_t>(op)), reduce_rate, copy_rate, reduce_rate / copy_rate, to_float32,
                  1e-9 * accumulated / median(accumulates));
    }
  }
}

int run(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{64} << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  if (bytes < 8 || rounds < 1) {
    std::fprintf(stderr, "usage: %s [bytes >= 8] [rounds >= 1] [level] [op]\n", argv[0]);
    return 2;
  }
  for (const Level level : usable_levels()) {
    if (argc > 3 ? std::strcmp(argv[3], level_name(level)) == 0 : level == usable_levels().back()) {
      measure(level, bytes, rounds, argc > 4 ? argv[4] : nullptr);
      return 0;
    }
  }
  std::fprintf(stderr, "level %s is not usable on this processor\n", argv[3]);
  return 2;
}

}  // namespace
}  // namespace anello::kernels

int main(int argc, char** argv) { return anello::kernels::run(argc, argv); }
