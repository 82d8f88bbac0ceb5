// The place of a communicator's staging memory, and the places in it that successive calls take.
#include "memory/staging.h"
#include "support/catch.h"
#include "transports/test_arena.h"

#include <set>

using anello::memory::Staging;

namespace {

constexpr std::size_t kAll = 4 * 1024 * 1024;

// The places of this many calls in a row.
std::set<std::size_t> places_of(Staging& staging, int calls, std::size_t bytes, bool comes_back) {
  std::set<std::size_t> places;
  for (int call = 0; call < calls; ++call) places.insert(staging.take(bytes, comes_back));
  return places;
}

}  // namespace

TEST_CASE("staging memory that comes back has one place for small and large calls, and few places for those between") {
  Staging staging;
  staging.bytes = kAll;
  CHECK(places_of(staging, 20, 4 * 1024, true) == std::set<std::size_t>{0});
  CHECK(places_of(staging, 20, 512 * 1024, true) == std::set<std::size_t>{0});
  const std::set<std::size_t> few = places_of(staging, 20, 32 * 1024, true);
  CHECK(few.size() == 6);
  CHECK(*few.rbegin() == 5 * 32 * 1024);
  // This also holds for other sizes in between.
  for (int call = 0; call < 100; ++call) {
    const std::size_t bytes = std::size_t(20 + 7 * call % 90) * 1024 + 4;
    CHECK(staging.take(bytes, true) + bytes <= 192 * 1024);
  }
}

TEST_CASE("a call knows whether others may still load the staging memory that it takes") {
  Staging staging;
  staging.bytes = kAll;
  std::size_t from = 0, to = 0;  // bytes that others may load
  for (int call = 0; call < 2000; ++call) {
    const std::size_t bytes = std::size_t(1 + 37 * call % 300) * 1024 + 4;
    const bool comes_back = call % 3 == 0;
    const bool apart = staging.apart(bytes, comes_back);
    const std::size_t place = staging.take(bytes, comes_back);
    CHECK(place + bytes <= kAll);
    CHECK(apart == (from == to || place >= to || place + bytes <= from));
    from = place;
    to = comes_back ? place : place + bytes;
  }
}

TEST_CASE("successive communicators of a board use the same staging memory") {
  anello::testing::TestArena memory(4);
  const anello::memory::Arena arena = memory.of(0);
  const std::uint64_t offset = Staging::find_range(arena, 3, 4, kAll).offset();
  REQUIRE(offset != 0);
  const std::uint64_t given = arena.header().extents.load();
  for (int communicator = 0; communicator < 1000; ++communicator) {
    Staging::give_pages_back(arena, 3);
    REQUIRE(Staging::find_range(arena, 3, 4, kAll).offset() == offset);
  }
  CHECK(arena.header().extents.load() == given);
  CHECK(Staging::find_range(arena, 4, 4, kAll).offset() != offset);
}

TEST_CASE("each rank has its own part of staging memory, and all ranks see it") {
  anello::testing::TestArena memory(3);
  const std::uint64_t offset = Staging::find_range(memory.of(0), 0, 3, kAll).offset();
  Staging staging[3];
  for (int rank = 0; rank < 3; ++rank) {
    staging[rank].offset = offset;
    REQUIRE(staging[rank].map(memory.of(rank), 3, rank, kAll));
    staging[rank].at[std::size_t(rank)][staging[rank].bytes - 1] = std::byte(rank + 1);
  }
  for (const Staging& each : staging) {
    for (int rank = 0; rank < 3; ++rank) CHECK(each.at[std::size_t(rank)][each.bytes - 1] == std::byte(rank + 1));
  }
}

TEST_CASE("an impossible place of staging memory is not used") {
  anello::testing::TestArena memory(2);
  const anello::memory::Arena arena = memory.of(0);
  arena.header().board_staging[3] = {std::uint64_t{1} << 62, std::uint64_t{1} << 40};
  Staging::give_pages_back(arena, 3);
  CHECK(Staging::find_range(arena, 3, 2, kAll).offset() < std::uint64_t{1} << 40);
  Staging staging;
  staging.offset = 4096;
  CHECK_FALSE(staging.map(arena, 2, 0, kAll));
  staging.offset = std::uint64_t{1} << 62;
  CHECK_FALSE(staging.map(arena, 2, 0, kAll));
}
