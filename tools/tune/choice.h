#pragma once
// Derives rules from times: finds where another way is clearly faster than the library's own.
#include "schedule/tuning.h"
#include "tune/job.h"

#include <string>
#include <vector>

namespace anello::tune {

// Requires: not empty.
double median(std::vector<double> values);
// The median over all rounds of the ratio of two ways' times: a disturbance in a round affects both.
double ratio(const std::vector<double>& times, const std::vector<double>& others);

// Whether the way is the library's current choice there, with the wish with which that choice was measured. If so, it
// is not another way, whatever the times say.
bool is_the_librarys(const Job& job, const Measured& measured, const Way& way, const schedule::Wish& library = {});

// Payloads from `from` to `up_to` bytes that use one way.
struct Segment {
  std::size_t from = 1;
  std::size_t up_to = SIZE_MAX;
  Way way;           // "": the library's choice
  double least = 1;  // of the library's time, over the measured sizes
  double most = 1;
};

// Chooses a way for all sizes, from one collective's measurements by rising size. If ways are about equally fast, it
// takes the library's or else that of the previous size.
std::vector<Segment> segments(const Job& job, const std::vector<Measured>& sizes);

struct Line {
  schedule::Rule rule;
  std::string remark;  // its gain; "" for a rule that keeps the library's choice
};
// The lines of all jobs. Numbers of ranks between the measured ones use the nearer one.
struct Result {
  Job job;
  std::vector<Measured> measured;
};
std::vector<Line> lines(const std::vector<Result>& results);
// The text of the table's file.
std::string table_of(const std::vector<Line>& lines, const std::string& machine, const std::string& remark);

}  // namespace anello::tune
