#include "shared/findings.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace shared {
namespace {

constexpr std::size_t kWidest = sizeof "problem" - 1;

std::string counted(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::size_t count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [=](const Finding& each) { return each.verdict == verdict; }));
}

}  // namespace

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::warning: return "warning";
    case Verdict::problem: break;
  }
  return "problem";
}

std::string as_lines(const std::vector<Finding>& findings) {
  std::size_t names = 0;
  for (const Finding& each : findings) names = std::max(names, each.name.size());
  std::ostringstream out;
  const std::string below(kWidest + 2, ' ');
  for (const Finding& each : findings) {
    const std::string word = word_of(each.verdict);
    out << word << std::string(kWidest + 2 - word.size(), ' ') << each.name
        << std::string(names + 2 - each.name.size(), ' ') << each.value << '\n';
    if (each.verdict == Verdict::ok) continue;
    out << below << each.meaning << '\n';
    if (!each.remedy.empty()) out << below << "  " << each.remedy << '\n';
  }
  return out.str();
}

std::string summary(const std::vector<Finding>& findings) {
  return counted(findings.size(), "check") + ": " + std::to_string(count(findings, Verdict::ok)) + " ok, " +
         counted(count(findings, Verdict::warning), "warning") + ", " +
         counted(count(findings, Verdict::problem), "problem");
}

bool has_problem(const std::vector<Finding>& findings) { return count(findings, Verdict::problem) > 0; }

}  // namespace shared
