#pragma once
// The results of a row of gpu-verify: one line of JSON each, written at once, so that a row that is cut off keeps its
// results.
#include <string>

namespace gpu {

enum class Verdict { pass, fail, skip, report };  // report: a figure without a bound

struct Check {
  std::string name;
  Verdict verdict = Verdict::report;
  std::string figure;  // "2.91 TB/s"
  std::string bound;   // ">= 0.95 B"
  std::string note;    // the reason for a failure or skip, or the parts of the figure
};

void write(const Check& check);

// Compares with a lower or upper bound.
Check at_least(const std::string& name, double value, double bound, const char* unit, const std::string& note = "");
Check at_most(const std::string& name, double value, double bound, const char* unit, const std::string& note = "");
// Writes a figure without a bound.
Check reported(const std::string& name, double value, const char* unit, const std::string& note = "");

// The number of results with Verdict::fail.
int failures();

}  // namespace gpu
