#pragma once
// One step as people look at it: what was computed when, and which share of the communication went on meanwhile.
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

  // Of the time during which anything was being sent, the share that nobody waited for: 0 to 1.
  double hidden() const;
  std::string text() const;  // a line a row, for a terminal
  std::string svg() const;
};

}  // namespace fashion
