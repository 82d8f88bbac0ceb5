// Ranges of the arena's file are given out by a number that all ranks of the host can write.
#include "transports/extent.h"
#include "transports/test_arena.h"

#include <catch2/catch.hpp>

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

TEST_CASE("a number of bytes given out that cannot be leads to no memory, and never into the arena") {
  TestArena arena(2);
  const Arena own = arena.of(0);
  const std::uint64_t bytes = own.layout().bytes();
  for (const std::uint64_t given : {std::uint64_t{0} - bytes, std::uint64_t{0} - bytes + 4096, std::uint64_t{4097}, std::uint64_t{1} << 62,
                                    ~std::uint64_t{0} - 4095}) {
    CAPTURE(given);
    own.header().extents.store(given);
    CHECK(Extent::allocate(own, 100).offset() == 0);
  }
  own.header().extents.store(8192);
  const Extent fine = Extent::allocate(own, 100);
  CHECK(fine.offset() == bytes + 8192);
  fine.give_back();
}

TEST_CASE("who asks for more than there is takes nothing from the others' ranges") {
  TestArena arena(2);
  const Arena own = arena.of(0);
  CHECK(Extent::allocate(own, std::size_t{1} << 50).offset() == 0);
  CHECK(own.header().extents.load() == 0);
}
