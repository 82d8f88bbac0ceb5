#pragma once
// The ANELLO_* variables (environment.def), read once per process, with secure_getenv. A value that does not parse is
// an error of the first anello_comm_create, naming the variable; for an unknown ANELLO_* name, that call logs a warning
// with the nearest valid name.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace anello {

struct Config {
  using text_t = std::string;
  using integer_t = std::int64_t;
  using flag_t = bool;
#define ANELLO_VARIABLE(name, kind, field, fallback, what) kind##_t field{};
#include "base/environment.def"
#undef ANELLO_VARIABLE

  std::vector<std::string> problems;  // values that did not parse: the first create returns the first of them

  static const Config& get();
  // For tests: reads the variables from any lookup function (nullptr: not set).
  static Config read(const std::function<const char*(const char* name)>& lookup);
};

struct Variable {
  const char* name;
  const char* kind;
  const char* fallback;
  const char* what;
};
const std::vector<Variable>& variables();

// "ANELLO_TIMOUT_MS is not known; did you mean ANELLO_TIMEOUT_MS?" for each unknown ANELLO_* name in environ.
std::vector<std::string> unknown_variables(const char* const* environ);

}  // namespace anello
