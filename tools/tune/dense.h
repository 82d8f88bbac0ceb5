#pragma once
// Whether the library's choice leaves cliffs: at no size should a call be slower than at the next larger one, or than
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
  bool was_wrong = false;  // in the first of two looks
  bool is_right() const { return over_next <= kTolerance && over_best <= kTolerance; }
};

// Of one collective's measurements by rising size. own: whether a way is the library's under its name, and no other
// one.
std::vector<Verdict> verdicts(const std::vector<Measured>& sizes,
                              const std::function<bool(const Measured&, const Way&)>& own = {});
// Those to look at again, by rising size: the wrong ones, and each one's next.
std::vector<std::size_t> doubtful(const std::vector<Verdict>& verdicts);
// The first look's, but of those that were wrong the second's. Ranks that are started anew have their memory elsewhere,
// which alone can make a call 10 % slower or faster.
std::vector<Verdict> after_second_look(std::vector<Verdict> first, const std::vector<Verdict>& second);
// For people, a line each.
std::string print(const std::vector<Verdict>& verdicts);

}  // namespace anello::tune
