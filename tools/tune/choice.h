#pragma once
// From times to rules: where another way than the library's own is clearly faster.
#include "schedule/tuning.h"
#include "tune/job.h"

#include <string>
#include <vector>

namespace anello::tune {

// Requires: not empty.
double median(std::vector<double> values);
// Median of a way's time over another's, round by round: what disturbs a round disturbs both.
double ratio(const std::vector<double>& times, const std::vector<double>& others);

// Whether the way is what the library, with the wish that its own choice was measured with, does there as it is:
// whatever the times say, no other way.
bool is_the_librarys(const Job& job, const Measured& measured, const Way& way, const schedule::Wish& library = {});

// Payloads from `from` to `up_to` bytes, all done one way.
struct Segment {
  std::size_t from = 1;
  std::size_t up_to = SIZE_MAX;
  Way way;           // "": as the library chooses
  double least = 1;  // of the library's time, over the measured sizes
  double most = 1;
};

// What to do at all sizes, of one collective's measurements by rising size. Where ways are about as fast, the
// library's, or else the one that the size before has.
std::vector<Segment> segments(const Job& job, const std::vector<Measured>& sizes);

struct Line {
  schedule::Rule rule;
  std::string remark;  // what it brings; "" for a rule that keeps what the library does
};
// The lines of all jobs. Ranks between the numbers that were measured go with the nearer one.
struct Result {
  Job job;
  std::vector<Measured> measured;
};
std::vector<Line> lines(const std::vector<Result>& results);
// The table as a file has it.
std::string table_of(const std::vector<Line>& lines, const std::string& machine, const std::string& remark);

}  // namespace anello::tune
