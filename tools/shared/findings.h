#pragma once
// What an examination has found: a line for each thing that was looked at, and what to do about those that are not as
// they should be.
#include <string>
#include <vector>

namespace shared {

enum class Verdict { ok, warning, problem };

struct Finding {
  Verdict verdict = Verdict::ok;
  std::string name;     // of what was looked at
  std::string value;    // how it is
  std::string meaning;  // a sentence, if it is not ok: what happens because of it
  std::string remedy;   // the thing to type, if it is not ok
};

const char* word_of(Verdict verdict);
// A line for each finding, with columns; below those that are not ok, their meaning and remedy.
std::string as_lines(const std::vector<Finding>& findings);
// "14 checks: 12 ok, 2 warnings, 0 problems"
std::string summary(const std::vector<Finding>& findings);
bool has_problem(const std::vector<Finding>& findings);

}  // namespace shared
