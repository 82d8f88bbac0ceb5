#pragma once
// Checks the library's choices for cliffs: at no size should a call be slower than at the next larger size, or than
// another way of doing it.
#include "tune/job.h"

#include <functional>
#include <string>
#include <vector>

namespace anello::tune {

inline constexpr double kTolerance = 1.10;

struct Verdict {
  std::size_t bytes = 0;
  double us = 0;         // the library's, median
  double over_next = 0;  // its time over that of the next larger size; 0: there is none
  Way best;              // the fastest way
  double best_us = 0;
  double over_best = 1;    // the library's time over that of the fastest way
  bool was_wrong = false;  // in the first of two measurements
  bool is_right() const { return over_next <= kTolerance && over_best <= kTolerance; }
};

// Judges one collective's measurements by rising size. own: whether a way is the library's choice under its own name.
std::vector<Verdict> verdicts(const std::vector<Measured>& sizes,
                              const std::function<bool(const Measured&, const Way&)>& own = {});
// The sizes to measure again, by rising size: the slow ones, and the next size after each.
std::vector<std::size_t> doubtful(const std::vector<Verdict>& verdicts);
// Takes the first measurement, but the second one for sizes that were slow. Freshly started ranks have their memory
// elsewhere, which alone can make a call 10 % slower or faster.
std::vector<Verdict> after_second_look(std::vector<Verdict> first, const std::vector<Verdict>& second);
// For people, one line each.
std::string print(const std::vector<Verdict>& verdicts);

}  // namespace anello::tune
