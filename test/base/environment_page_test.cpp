// docs/environment.md says what environment.def does, and names the foreign variables too.
#include "base/config.h"
#include "base/text.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>

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

TEST_CASE("the page names the variables of other launchers that are read") {
  std::string page;
  for (const std::string& line : page_lines()) page += line + '\n';
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS",
                           "SLURM_LOCALID", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK_THAT(page, Catch::Contains(text("`", name, "`")));
  }
}

}  // namespace
}  // namespace anello
