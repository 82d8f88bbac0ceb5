#include "base/config.h"
#include "support/catch.h"

#include <map>

namespace anello {
namespace {

Config read_from(const std::map<std::string, std::string>& values) {
  return Config::read([&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("without variables every field has the default that environment.def states") {
  const Config config = read_from({});
  CHECK(config.problems.empty());
  CHECK(config.timeout_ms == 300000);
  CHECK(config.log_level == "warn");
  CHECK(config.transport.empty());
  CHECK(config.spin_us == -1);
  CHECK_FALSE(config.invariant);
}

TEST_CASE("values of each kind are read, and an empty value counts as not set") {
  const Config config = read_from({{"ANELLO_TIMEOUT_MS", "1500"},
                                   {"ANELLO_INVARIANT", "1"},
                                   {"ANELLO_TRANSPORT", "shm,tcp"},
                                   {"ANELLO_SPIN_US", ""},
                                   {"ANELLO_LOG", "debug"}});
  CHECK(config.problems.empty());
  CHECK(config.timeout_ms == 1500);
  CHECK(config.invariant);
  CHECK(config.transport == "shm,tcp");
  CHECK(config.spin_us == -1);
  CHECK(config.log_level == "debug");
}

TEST_CASE("a value that does not parse is named, and the default stays") {
  struct Bad {
    const char* name;
    const char* value;
  };
  for (const Bad bad : {Bad{"ANELLO_TIMEOUT_MS", "5s"}, Bad{"ANELLO_TIMEOUT_MS", " 5"},
                        Bad{"ANELLO_TIMEOUT_MS", "0x10"}, Bad{"ANELLO_TIMEOUT_MS", "1.5"},
                        Bad{"ANELLO_TIMEOUT_MS", "99999999999999999999"}, Bad{"ANELLO_INVARIANT", "yes"},
                        Bad{"ANELLO_INVARIANT", "2"}, Bad{"ANELLO_INVARIANT", "01"}, Bad{"ANELLO_LOG", "loud"},
                        Bad{"ANELLO_LOG", "WARN"}, Bad{"ANELLO_STAGING", "yes"}, Bad{"ANELLO_ADVERTISE", "nonsense"},
                        Bad{"ANELLO_INTERFACE", "10.0.0.0/33"}, Bad{"ANELLO_INTERFACES", "eth0,10.0.0/8"}}) {
    INFO(bad.name << "=" << bad.value);
    const Config config = read_from({{bad.name, bad.value}});
    REQUIRE(config.problems.size() == 1);
    CHECK_THAT(config.problems.front(), Catch::Contains(bad.name) && Catch::Contains(bad.value));
    CHECK(config.timeout_ms == 300000);
    CHECK_FALSE(config.invariant);
    CHECK(config.log_level == "warn");
  }
}

TEST_CASE("every bad value is kept, in the table's order") {
  const Config config = read_from({{"ANELLO_SPIN_US", "x"}, {"ANELLO_CHUNK_BYTES", "y"}, {"ANELLO_INVARIANT", "z"}});
  REQUIRE(config.problems.size() == 3);
  CHECK_THAT(config.problems[0], Catch::Contains("ANELLO_CHUNK_BYTES"));
  CHECK_THAT(config.problems[1], Catch::Contains("ANELLO_INVARIANT"));
  CHECK_THAT(config.problems[2], Catch::Contains("ANELLO_SPIN_US"));
}

TEST_CASE("an unknown ANELLO_ name is reported with the nearest known one, and nothing else is") {
  const char* const environment[] = {"PATH=/bin", "ANELLO_TIMOUT_MS=5",    "ANELLO_LOG=info",
                                     "ANELLOS=1", "ANELLO_TRANSPORTS=tcp", "ANELLO_INVARIANT",
                                     nullptr};
  const auto warnings = unknown_variables(environment);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] == "ANELLO_TIMOUT_MS is not known; did you mean ANELLO_TIMEOUT_MS?");
  CHECK(warnings[1] == "ANELLO_TRANSPORTS is not known; did you mean ANELLO_TRANSPORT?");
}

TEST_CASE("no environment at all is no unknown name") {
  const char* const none[] = {nullptr};
  CHECK(unknown_variables(none).empty());
  CHECK(unknown_variables(nullptr).empty());
}

TEST_CASE("each of the table's own names is known") {
  std::vector<std::string> entries;
  for (const Variable& variable : variables()) entries.push_back(std::string(variable.name) + "=1");
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  CHECK(entries.size() > 10);
  CHECK(unknown_variables(environment.data()).empty());
}

}  // namespace
}  // namespace anello
