#include "base/descriptor_table.h"
#include "support/catch.h"

#include <fstream>
#include <string>

#include <dirent.h>
#include <sys/resource.h>

namespace {

long table_size() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("FDSize:", 0) == 0) return std::stol(line.substr(7));
  return 0;
}

int open_descriptors() {
  int count = 0;
  DIR* const all = ::opendir("/proc/self/fd");
  while (::readdir(all) != nullptr) ++count;
  ::closedir(all);
  return count;
}

}  // namespace

TEST_CASE("room for descriptors is made at once, takes none") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  REQUIRE(limit.rlim_cur >= 1024);
  const long before = table_size();
  REQUIRE(before > 0);
  if (before >= 1024) {
    WARN("SKIPPED: this process's table of descriptors was that large from the start");
    return;
  }
  const int open = open_descriptors();
  anello::make_room_for_descriptors(1000);
  CHECK(table_size() >= 1000);
  CHECK(open_descriptors() == open);
  anello::make_room_for_descriptors(10);
  CHECK(table_size() >= 1000);
  CHECK(open_descriptors() == open);
}
