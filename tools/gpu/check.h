#pragma once
// What a row of gpu-verify found: one line of JSON each, written at once, so that a row that is cut off keeps what it
// had.
#include <string>

namespace gpu {

enum class Verdict { pass, fail, skip, report };  // report: a figure without a bound

struct Check {
  std::string name;
  Verdict verdict = Verdict::report;
  std::string figure;  // "2.91 TB/s"
  std::string bound;   // ">= 0.95 B"
  std::string note;    // why it failed or was skipped, or what the figure is made of
};

void write(const Check& check);

// Against a bound from below or above.
Check at_least(const std::string& name, double value, double bound, const char* unit, const std::string& note = "");
Check at_most(const std::string& name, double value, double bound, const char* unit, const std::string& note = "");
// A figure alone.
Check reported(const std::string& name, double value, const char* unit, const std::string& note = "");

// How many were written with Verdict::fail.
int failures();

}  // namespace gpu
