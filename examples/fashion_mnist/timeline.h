#pragma once
// One step for people: which computation ran when, and which share of the communication ran meanwhile.
#include <chrono>
#include <string>
#include <vector>

namespace fashion {

using Clock = std::chrono::steady_clock;

inline double seconds(Clock::time_point from, Clock::time_point until) {
  return std::chrono::duration<double>(until - from).count();
}

struct Timeline {
  enum Kind { computing, sending, waiting };
  struct Row {
    std::string name;
    Kind kind;
    double from, until;  // seconds from the step's begin
  };
  std::vector<Row> rows;
  double end = 0;

  // The share of the communication time in which the rank did not wait: 0 to 1.
  double hidden() const;
  std::string text() const;  // one line per row, for a terminal
  std::string svg() const;
};

}  // namespace fashion
