// docs/environment.md says what environment.def does, and names the variables of other launchers that are read.
#include "base/config.h"
#include "base/text.h"
#include "support/catch.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

namespace anello {
namespace {

std::vector<std::string> page_lines() {
  std::ifstream page(ENVIRONMENT_PAGE);
  std::vector<std::string> lines;
  for (std::string line; std::getline(page, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("the page's table of ANELLO_ variables is environment.def's, row by row") {
  std::vector<std::string> documented;
  for (const std::string& line : page_lines()) {
    if (line.rfind("| `ANELLO_", 0) == 0) documented.push_back(line);
  }
  std::vector<std::string> expected;
  for (const Variable& variable : variables()) {
    const std::string fallback = variable.fallback[0] == '\0' ? "none" : text("`", variable.fallback, "`");
    expected.push_back(text("| `", variable.name, "` | ", variable.kind, " | ", fallback, " | ", variable.what, " |"));
  }
  CHECK(documented == expected);
}

// Read as text: the layer that reads them is above this one, and keeps its list to itself.
std::vector<std::string> foreign_variables() {
  std::ifstream source(LAUNCHER_SOURCE);
  const std::string code{std::istreambuf_iterator<char>(source), {}};
  std::vector<std::string> names;
  const std::regex quoted("\"([A-Z][A-Z_]*)\"");
  for (std::sregex_iterator found(code.begin(), code.end(), quoted), end; found != end; ++found) {
    names.push_back((*found)[1]);
  }
  return names;
}

TEST_CASE("the page names every variable of other launchers that is read") {
  std::string page;
  for (const std::string& line : page_lines()) page += line + '\n';
  const std::vector<std::string> names = foreign_variables();
  CHECK(std::count(names.begin(), names.end(), "RANK") > 0);
  CHECK(std::count(names.begin(), names.end(), "MASTER_ADDR") > 0);
  for (const std::string& name : names) CHECK_THAT(page, Catch::Contains(text("`", name, "`")));
}

}  // namespace
}  // namespace anello
