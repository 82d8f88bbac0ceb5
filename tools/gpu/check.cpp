#include "gpu/check.h"

#include <cstdio>

namespace gpu {
namespace {

int failed = 0;

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "PASS";
    case Verdict::fail: return "FAIL";
    case Verdict::skip: return "SKIP";
    case Verdict::report: return "INFO";
  }
  return "FAIL";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    char escape[8];
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(letter));
      result += escape;
    } else {
      result += letter;
    }
  }
  return result + "\"";
}

std::string number(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

Check bounded(const std::string& name, double value, double bound, const char* unit, const std::string& note,
              const char* sign, bool holds) {
  return {name, holds ? Verdict::pass : Verdict::fail, number(value, unit), sign + number(bound, unit), note};
}

}  // namespace

void write(const Check& check) {
  failed += check.verdict == Verdict::fail;
  std::printf("{\"name\": %s, \"verdict\": \"%s\", \"figure\": %s, \"bound\": %s, \"note\": %s}\n",
              quoted(check.name).c_str(), word(check.verdict), quoted(check.figure).c_str(),
              quoted(check.bound).c_str(), quoted(check.note).c_str());
  std::fflush(stdout);
}

Check at_least(const std::string& name, double value, double bound, const char* unit, const std::string& note) {
  return bounded(name, value, bound, unit, note, ">= ", value >= bound);
}

Check at_most(const std::string& name, double value, double bound, const char* unit, const std::string& note) {
  return bounded(name, value, bound, unit, note, "<= ", value <= bound);
}

Check reported(const std::string& name, double value, const char* unit, const std::string& note) {
  return {name, Verdict::report, number(value, unit), "", note};
}

int failures() { return failed; }

}  // namespace gpu
