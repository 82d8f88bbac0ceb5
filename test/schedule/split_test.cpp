#include "schedule/split.h"
#include "schedule/waves.h"
#include "support/catch.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace anello::schedule;

TEST_CASE("blocks cover the vector in order and differ by at most one element") {
  for (const int blocks : {1, 2, 3, 5, 16, 17})
    for (const std::size_t count : {0u, 1u, 2u, 15u, 16u, 17u, 18u, 1009u}) {
      const Split split(count, blocks, 7);
      std::size_t at = 0;
      std::size_t shortest = count + 1;
      std::size_t longest = 0;
      std::size_t before = count + 1;
      for (int b = 0; b < blocks; ++b) {
        const Part block = split.block(b);
        CHECK(block.offset == at);
        CHECK(block.count <= before);
        before = block.count;
        at += block.count;
        shortest = std::min(shortest, block.count);
        longest = std::max(longest, block.count);
      }
      CHECK(at == count);
      CHECK(longest - shortest <= 1);
    }
}

TEST_CASE("chunks cover their block, and the ones past its end are empty") {
  for (const std::size_t chunk : {1u, 2u, 5u, 100u}) {
    const Split split(23, 4, chunk);  // blocks of 6, 6, 6, 5
    std::size_t longest = 0;
    for (int b = 0; b < 4; ++b) {
      std::size_t at = split.block(b).offset;
      for (std::size_t c = 0; c < split.chunks(); ++c) {
        const Part part = split.chunk(b, c);
        CHECK(part.offset == at);
        CHECK(part.count <= chunk);
        longest = std::max(longest, part.count);
        at += part.count;
      }
      CHECK(at == split.block(b).offset + split.block(b).count);
      CHECK(split.chunk(b, split.chunks()).count == 0);
    }
    CHECK(longest == split.longest());
  }
  CHECK(Split(0, 3, 4).chunks() == 0);
  CHECK(Split(23, 4, 5).chunks() == 2);
}

TEST_CASE("block numbers run around in both directions") {
  const Split split(10, 4, 10);
  CHECK(split.block(-1) == split.block(3));
  CHECK(split.block(4) == split.block(0));
  CHECK(wrap(-9, 4) == 3);
  CHECK(wrap(8, 4) == 0);
}

TEST_CASE("aligned blocks cover a vector once, begin at multiples of the unit, and differ by at most one") {
  for (const std::size_t unit : {1u, 4u, 16u})
    for (const int blocks : {1, 2, 3, 8})
      for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 64u, 127u, 128u, 129u, 1000u}) {
        INFO(count << " in " << blocks << " by " << unit);
        std::size_t next = 0;
        const std::size_t longest = aligned_block(count, blocks, unit, 0).count;
        for (int b = 0; b < blocks; ++b) {
          const Part block = aligned_block(count, blocks, unit, b);
          REQUIRE(block.offset == next);
          if (block.count > 0) {
            REQUIRE(block.offset % unit == 0);
            REQUIRE(block.count <= longest);
          }
          // The last block with something in it may end before its unit does.
          if (next + block.count < count) REQUIRE(block.count + unit >= longest);
          next += block.count;
        }
        REQUIRE(next == count);
      }
}

TEST_CASE("waves visit every chunk of every step, a lead apart, in order of waves and then of steps") {
  for (const int steps : {0, 1, 2, 7, 40}) {
    for (const std::size_t chunks : {std::size_t(0), std::size_t(1), std::size_t(3), std::size_t(4), std::size_t(50)}) {
      std::vector<std::pair<int, std::size_t>> visited, expected;
      in_waves(steps, chunks, [&](int i, std::size_t c) { visited.emplace_back(i, c); });
      for (std::size_t wave = 0; wave < chunks + std::size_t(steps) * kLead; ++wave) {
        for (int i = 0; i < steps; ++i) {
          const std::size_t behind = std::size_t(i) * kLead;
          if (wave >= behind && wave - behind < chunks) expected.emplace_back(i, wave - behind);
        }
      }
      CHECK(visited == expected);
    }
  }
}
