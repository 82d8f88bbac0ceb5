// Copies of every size and alignment are exact, and store nothing outside the destination.
#include "memory/copy.h"
#include "support/catch.h"

#include <cstring>
#include <vector>

using namespace anello::memory;

namespace {

constexpr std::byte kBeside{0xa5};

template <class Copy>
void check(const char* name, Copy&& copy) {
  constexpr std::size_t kMost = 160 * 1024;
  std::vector<std::byte> from(kMost + 256);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  for (const std::size_t bytes :
       {0, 1, 63, 64, 65, 4095, 4096, 8192, 16383, 16384, 16385, 20480, 32768, 32769, 65536, 70001, 163840})
    for (const std::size_t to_at : {64, 65, 80, 124})
      for (const std::size_t from_at : {0, 1, 16, 60}) {
        std::vector<std::byte> to(kMost + 256, kBeside);
        copy(to.data() + to_at, from.data() + from_at, bytes);
        INFO(name << ", " << bytes << " bytes, from " << from_at << " to " << to_at);
        REQUIRE(std::memcmp(to.data() + to_at, from.data() + from_at, bytes) == 0);
        std::size_t beside = 0;
        for (std::size_t i = 0; i < to.size(); ++i)
          if ((i < to_at || i >= to_at + bytes) && to[i] != kBeside) ++beside;
        REQUIRE(beside == 0);
      }
}

}  // namespace

TEST_CASE("every kind of copy stores all bytes, and nothing outside the destination") {
  check("stored elsewhere", copy_stored_elsewhere);
  check("while stored", copy_while_stored);
  check("past caches", copy_past_caches);
  PieceCopy pieces;
  check("pieces", [&](std::byte* to, const std::byte* from, std::size_t bytes) { pieces.copy(to, from, bytes); });
}
