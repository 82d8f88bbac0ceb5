// All ranks of the host can write the number that says how much of the arena's file is given out.
#include "memory/extent.h"
#include "support/catch.h"
#include "transports/test_arena.h"

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;

TEST_CASE("an impossible number of bytes given out leads to no memory, and never into the arena") {
  TestArena arena(2);
  const Arena own = arena.of(0);
  const std::uint64_t bytes = own.layout().bytes();
  for (const std::uint64_t given : {std::uint64_t{0} - bytes, std::uint64_t{0} - bytes + 4096, std::uint64_t{4097},
                                    std::uint64_t{1} << 62, ~std::uint64_t{0} - 4095}) {
    CAPTURE(given);
    own.header().extents.store(given);
    CHECK(Extent::reserve(own, 100).offset() == 0);
  }
  own.header().extents.store(8192);
  const Extent fine = Extent::reserve(own, 100);
  CHECK(fine.offset() == bytes + 8192);
  fine.give_back();
}

TEST_CASE("a request for too much memory takes nothing from other ranges") {
  TestArena arena(2);
  const Arena own = arena.of(0);
  CHECK(Extent::reserve(own, std::size_t{1} << 50).offset() == 0);
  CHECK(own.header().extents.load() == 0);
}

TEST_CASE("each rank backs its part of a shared range, and a part that is given back reads as zeros") {
  TestArena arena(2);
  const Arena own = arena.of(0);
  constexpr std::size_t kPart = 64 * 1024;
  const Extent made = Extent::reserve(own, 2 * kPart);
  REQUIRE(made.offset() != 0);
  const Extent peers = Extent::of_peer(arena.of(1), made.offset(), 2 * kPart);
  REQUIRE(peers.offset() == made.offset());
  const ExtentMapping here = made.map(), there = peers.map();
  REQUIRE(here);
  REQUIRE(there);
  CHECK(made.back(here, 0, kPart));
  CHECK(peers.back(there, kPart, kPart));
  CHECK_FALSE(peers.back(there, kPart, 2 * kPart));
  CHECK_FALSE(peers.back(there, 3 * kPart, 1));
  here.data()[kPart - 1] = std::byte{7};
  there.data()[kPart] = std::byte{8};
  CHECK(there.data()[kPart - 1] == std::byte{7});
  CHECK(here.data()[kPart] == std::byte{8});
  made.give_back(0, kPart);
  CHECK(there.data()[kPart - 1] == std::byte{0});
  CHECK(here.data()[kPart] == std::byte{8});
  made.give_back();
  CHECK(there.data()[kPart] == std::byte{0});
}
