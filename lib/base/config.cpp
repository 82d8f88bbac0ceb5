#include "base/config.h"

#include "base/interface_filter.h"
#include "base/port_range.h"
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace anello {
namespace {

void parse(const char* name, const char* value, std::string& into, std::vector<std::string>&) {
  (void)name;
  into = value;
}

void parse(const char* name, const char* value, std::int64_t& into, std::vector<std::string>& problems) {
  const char* const end = value + std::strlen(value);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error != std::errc{} || stop != end) {
    problems.push_back(text(name, "=", value, " is not a whole number"));
    return;
  }
  into = number;
}

void parse(const char* name, const char* value, bool& into, std::vector<std::string>& problems) {
  const std::string_view word = value;
  if (word != "0" && word != "1") {
    problems.push_back(text(name, "=", value, " must be 0 or 1"));
    return;
  }
  into = word == "1";
}

// The number of edits (insert, drop, replace) that turn one name into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Config Config::read(const std::function<const char*(const char* name)>& lookup) {
  Config config;
#define ANELLO_VARIABLE(name, kind, field, fallback, what)                     \
  parse(#name, fallback, config.field, config.problems);                       \
  if (const char* value = lookup(#name); value != nullptr && *value != '\0') { \
    parse(#name, value, config.field, config.problems);                        \
  }
#include "base/environment.def"
#undef ANELLO_VARIABLE
  const auto at_least = [&config](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) config.problems.push_back(text(name, "=", value, " is below ", least));
  };
  at_least("ANELLO_TIMEOUT_MS", config.timeout_ms, 1);
  at_least("ANELLO_CHUNK_BYTES", config.chunk_bytes, 0);
  at_least("ANELLO_FIRST_SEQUENCE", config.first_sequence, 0);
  at_least("ANELLO_SILENCE_MS", config.silence_ms, 0);
  at_least("ANELLO_SPIN_US", config.spin_us, -1);
  at_least("ANELLO_VERBS_CACHE", config.verbs_cache, -1);
  const auto within = [&config](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      config.problems.push_back(text(name, "=", value, " is not between ", least, " and ", most));
  };
  within("ANELLO_VERBS_GID_INDEX", config.verbs_gid_index, -1, 255);
  within("ANELLO_VERBS_PKEY_INDEX", config.verbs_pkey_index, 0, 65535);
  within("ANELLO_VERBS_RETRY", config.verbs_retry, 0, 7);
  within("ANELLO_VERBS_RNR_TIMER", config.verbs_rnr_timer, 12, 31);
  within("ANELLO_VERBS_SERVICE_LEVEL", config.verbs_service_level, 0, 15);
  within("ANELLO_VERBS_TIMEOUT", config.verbs_timeout, 1, 31);
  within("ANELLO_VERBS_TRAFFIC_CLASS", config.verbs_traffic_class, 0, 255);
  static constexpr std::string_view kLevels[] = {"off", "error", "warn", "info", "debug", "trace"};
  if (std::find(std::begin(kLevels), std::end(kLevels), config.log_level) == std::end(kLevels)) {
    config.problems.push_back(
        text("ANELLO_LOG=", config.log_level, " is not one of off, error, warn, info, debug, trace"));
    config.log_level = "warn";
  }
  if (config.checksum != "auto" && config.checksum != "off" && config.checksum != "headers" &&
      config.checksum != "all") {
    config.problems.push_back(text("ANELLO_CHECKSUM=", config.checksum, " is not one of auto, off, headers, all"));
    config.checksum = "auto";
  }
  if (config.staging != "auto" && config.staging != "never" && config.staging != "always") {
    config.problems.push_back(text("ANELLO_STAGING=", config.staging, " is not one of auto, never, always"));
    config.staging = "auto";
  }
  if (int low, high; !parse_port_range(config.port_range, low, high)) {
    config.problems.push_back(text("ANELLO_PORT_RANGE=", config.port_range, " is not LOW-HIGH, from 1 to 65535"));
    config.port_range.clear();
  }
  const auto interfaces = [&config](const char* name, const std::string& value) {
    const std::string fault = InterfaceFilter(value).fault();
    if (!fault.empty()) config.problems.push_back(text(name, "=", value, ": ", fault));
  };
  interfaces("ANELLO_INTERFACE", config.interface);
  interfaces("ANELLO_INTERFACES", config.interfaces);
  if (!config.advertise.empty() && !is_address(config.advertise)) {
    config.problems.push_back(text("ANELLO_ADVERTISE=", config.advertise,
                                   " is not an address: give the one at which others reach this host, such as "
                                   "10.1.2.3 or fd00::1"));
  }
  if (!config.interfaces.empty()) {
    if (!config.interface.empty())
      config.problems.push_back("ANELLO_INTERFACE and ANELLO_INTERFACES exclude each other");
    // ANELLO_ADVERTISE names one translated address; the rails' addresses would stay unknown.
    if (!config.advertise.empty())
      config.problems.push_back("ANELLO_ADVERTISE and ANELLO_INTERFACES exclude each other");
    config.interface = config.interfaces;
  }
  return config;
}

const Config& Config::get() {
  // Leaked on purpose: threads that outlive static destructors read it.
  static const Config* const config = new Config(read([](const char* name) { return secure_getenv(name); }));
  return *config;
}

const std::vector<Variable>& variables() {
  static const std::vector<Variable> table = {
#define ANELLO_VARIABLE(name, kind, field, fallback, what) {#name, #kind, fallback, what},
#include "base/environment.def"
#undef ANELLO_VARIABLE
  };
  return table;
}

std::vector<std::string> unknown_variables(const char* const* environ) {
  std::vector<std::string> warnings;
  for (; environ != nullptr && *environ != nullptr; ++environ) {
    const std::string_view entry = *environ;
    // Names that begin with ANELLO_TEST_ are for the tests, which pass their environment on.
    if (!entry.starts_with("ANELLO_") || entry.starts_with("ANELLO_TEST_")) continue;
    const std::string_view name = entry.substr(0, entry.find('='));
    const Variable* nearest = nullptr;
    bool known = false;
    for (const Variable& variable : variables()) {
      if (name == variable.name) known = true;
      if (nearest == nullptr || distance(name, variable.name) < distance(name, nearest->name)) nearest = &variable;
    }
    if (!known) warnings.push_back(text(name, " is not known; did you mean ", nearest->name, "?"));
  }
  return warnings;
}

}  // namespace anello
