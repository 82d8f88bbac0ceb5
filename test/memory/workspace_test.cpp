#include "memory/workspace.h"

#include "memory/region.h"
#include "support/catch.h"

#include <cstring>

using namespace anello::memory;

TEST_CASE("a workspace grows, stays where it is while it is large enough, and lies in a region if it is asked to") {
  Workspace work;
  CHECK(work.size() == 0);
  work.provide(1000, false);
  CHECK(find_region(work.data(), 1000).region == 0);
  const std::byte* const plain = work.data();
  work.provide(10, false);
  CHECK(work.data() == plain);
  work.provide(10, true);
  REQUIRE(work.size() >= 10);
  CHECK(find_region(work.data(), 10).region != 0);
  work.provide(100'000, true);
  const RegionSpot spot = find_region(work.data(), 100'000);
  CHECK(spot.region != 0);
  std::memset(work.data(), 1, 100'000);
  work.provide(5, false);  // a region serves, too
  CHECK(find_region(work.data(), 100'000) == spot);
  work.free();
  CHECK(work.size() == 0);
  CHECK(memory_of_region(spot.region).empty());
}
