// Regions: made, found by address, mapped from a passed descriptor, moved away from under a mapping, freed for all.
#include "transports/region.h"

#include "base/error.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::transport;

namespace {

struct Made {
  explicit Made(std::size_t bytes, const RegionWish& wish = {}) : base(make_region(bytes, wish)) {}
  ~Made() { free_region(base); }
  std::byte* const base;
};

std::shared_ptr<RegionMapping> map_again(const std::byte* base) {
  const std::uint64_t region = find_region(base, 1).region;
  return RegionMapping::of(region, region_descriptor(region));
}

}  // namespace

TEST_CASE("a region is zeroed, on a page, and found by any address in it") {
  const Made made(10'000), other(1);
  CHECK(reinterpret_cast<std::uintptr_t>(made.base) % 4096 == 0);
  for (std::size_t i = 0; i < 10'000; ++i) REQUIRE(made.base[i] == std::byte{0});
  const RegionSpot whole = find_region(made.base, 10'000);
  CHECK(whole.region != 0);
  CHECK(whole.offset == 0);
  CHECK(find_region(made.base + 5000, 100) == RegionSpot{whole.region, 5000});
  CHECK(find_region(made.base + 5000, 12'288 - 5000) == RegionSpot{whole.region, 5000});
  CHECK(find_region(made.base + 5000, 12'288 - 4999).region == 0);  // past its last page
  CHECK(find_region(other.base, 1).region != whole.region);
  int local = 0;
  CHECK(find_region(&local, sizeof local).region == 0);
}

TEST_CASE("what one mapping stores the other loads, until the region is freed") {
  const std::uint64_t before = regions_version();
  std::byte* const base = make_region(100'000);
  CHECK(regions_version() != before);
  const auto mapping = map_again(base);
  REQUIRE(mapping->bytes() >= 100'000);
  CHECK(mapping->data() != base);
  base[77'777] = std::byte{42};
  CHECK(mapping->data()[77'777] == std::byte{42});
  mapping->data()[5] = std::byte{7};
  CHECK(base[5] == std::byte{7});
  // One mapping a process, however often it is asked for.
  CHECK(map_again(base) == mapping);
  const std::uint64_t region = find_region(base, 1).region;
  CHECK(RegionMapping::find(region) == mapping);
  const std::uint64_t there = regions_version();
  CHECK(free_region(base));
  CHECK(regions_version() != there);
  CHECK(!free_region(base));
  CHECK(find_region(base, 1).region == 0);
  CHECK(!region_descriptor(region));
  // Its pages are gone for all, and nobody is killed for looking.
  CHECK(mapping->data()[77'777] == std::byte{0});
}

TEST_CASE("a region that was moved keeps its place and contents, and an old mapping reaches it no more") {
  const Made made(100'000);
  std::memset(made.base, 0x5a, 100'000);
  const std::uint64_t old = find_region(made.base, 1).region;
  const auto stale = map_again(made.base);
  REQUIRE(move_region(made.base + 50'000));
  CHECK(find_region(made.base, 100'000).region != old);
  CHECK(!region_descriptor(old));
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(made.base[i] == std::byte{0x5a});
  // Who is reading it for another call finds what lay there.
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(stale->data()[i] == std::byte{0x5a});
  std::memset(stale->data(), 0x11, 100'000);
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(made.base[i] == std::byte{0x5a});
  const auto fresh = map_again(made.base);
  fresh->data()[9] = std::byte{1};
  CHECK(made.base[9] == std::byte{1});
  int local = 0;
  CHECK(!move_region(&local));
}

TEST_CASE("memory that is not sealed against shrinking is not mapped") {
  UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC));
  REQUIRE(::ftruncate(plain.get(), 8192) == 0);
  CHECK_THROWS_AS(RegionMapping::of(12345, std::move(plain)), Error);
  CHECK_THROWS_AS(RegionMapping::of(12345, UniqueFd()), Error);
  CHECK(RegionMapping::find(12345) == nullptr);
}

TEST_CASE("what cannot be had is an error with a reason, and takes nothing") {
  const auto code_of = [](std::size_t bytes, const RegionWish& wish) {
    try {
      free_region(make_region(bytes, wish));
      return ANELLO_OK;
    } catch (const Error& error) {
      CHECK(error.text() != "");
      return error.code();
    }
  };
  CHECK(code_of(0, {}) == ANELLO_ERR_ARGUMENT);
  CHECK(code_of(SIZE_MAX, {}) == ANELLO_ERR_ARGUMENT);
  CHECK(code_of(std::size_t{1} << 50, {}) == ANELLO_ERR_RESOURCE);  // asked for piece by piece, never touched
  RegionWish nowhere;
  nowhere.numa_node = 1000;
  const anello_result_t bound = code_of(4096, nowhere);
  CHECK((bound == ANELLO_ERR_ARGUMENT || bound == ANELLO_OK));  // OK: a kernel that leaves pages where they come
  nowhere.numa_node = 100'000;
  CHECK(code_of(4096, nowhere) == ANELLO_ERR_ARGUMENT);
  CHECK(code_of(1 << 22, {true, -1}) == ANELLO_OK);
}

TEST_CASE("a forked child shares the memory and does not take it away") {
  const Made made(8192);
  const pid_t child = ::fork();
  if (child == 0) {
    made.base[1] = std::byte{9};
    free_region(made.base);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(made.base[1] == std::byte{9});
}

namespace {

struct Pages {
  explicit Pages(std::size_t size) : bytes(size), at(static_cast<std::byte*>(std::aligned_alloc(4096, size))) {
    for (std::size_t i = 0; i < size; ++i) at[i] = std::byte(i % 251);
  }
  ~Pages() { std::free(at); }
  bool intact(std::size_t from = 0) const {
    for (std::size_t i = from; i < bytes; ++i) {
      if (at[i] != std::byte(i % 251)) return false;
    }
    return true;
  }
  const std::size_t bytes;
  std::byte* const at;
};

std::string why_refused(void* address, std::size_t bytes) {
  try {
    register_region(address, bytes);
  } catch (const Error& error) {
    CHECK(error.code() == ANELLO_ERR_ARGUMENT);
    return error.text();
  }
  return "";
}

}  // namespace

TEST_CASE("the caller's own memory becomes a region with its contents, and its own again") {
  const Pages own(40 * 4096);
  for (int round = 0; round < 2; ++round) {
    register_region(own.at, own.bytes);
    CHECK(own.intact());
    CHECK(find_region(own.at + 5, 100).offset == 5);
    const auto mapping = map_again(own.at);
    REQUIRE(mapping->bytes() == own.bytes);
    CHECK(std::memcmp(mapping->data(), own.at, own.bytes) == 0);
    mapping->data()[4097] = std::byte{99};
    CHECK(own.at[4097] == std::byte{99});
    CHECK_FALSE(free_region(own.at));

    deregister_region(own.at);
    CHECK(find_region(own.at, 1).region == 0);
    CHECK(own.at[4097] == std::byte{99});
    CHECK(own.intact(4098));
    own.at[4097] = std::byte(4097 % 251);
    CHECK(own.intact());
    mapping->data()[0] = std::byte{99};  // the old pages, which nobody has
    CHECK(own.intact());
  }
}

TEST_CASE("what cannot be registered is told with the reason, and stays as it is") {
  const Pages own(8 * 4096);
  CHECK_THAT(why_refused(own.at + 64, 4096), Catch::Matchers::Contains("multiples of the page size"));
  CHECK_THAT(why_refused(own.at, 5000), Catch::Matchers::Contains("multiples of the page size"));
  CHECK_THROWS_AS(deregister_region(own.at), Error);

  register_region(own.at + 4096, 2 * 4096);
  CHECK_THAT(why_refused(own.at, 2 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK_THAT(why_refused(own.at + 2 * 4096, 4 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK_THAT(why_refused(own.at, 8 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK(why_refused(own.at + 3 * 4096, 4096).empty());
  CHECK_THROWS_AS(deregister_region(own.at + 2 * 4096), Error);  // not where it begins
  deregister_region(own.at + 3 * 4096);
  deregister_region(own.at + 4096);

  const Made made(4096);
  CHECK_THAT(why_refused(made.base, 4096), Catch::Matchers::Contains("anello_mem_alloc"));
  CHECK_THROWS_AS(deregister_region(made.base), Error);

  auto* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  CHECK_THAT(why_refused(shared, 4096), Catch::Matchers::Contains("shared"));
  ::munmap(shared, 4096);
  auto* const hole = static_cast<std::byte*>(::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(hole != MAP_FAILED);
  ::mprotect(hole + 4096, 4096, PROT_READ);
  CHECK_THAT(why_refused(hole, 3 * 4096), Catch::Matchers::Contains("may not be read and written"));
  ::munmap(hole + 4096, 4096);
  CHECK_THAT(why_refused(hole, 3 * 4096), Catch::Matchers::Contains("not mapped"));
  ::munmap(hole, 3 * 4096);
  std::byte local[3 * 4096];  // sanitizers do not align it
  auto* const page = local + (4096 - reinterpret_cast<std::uintptr_t>(local) % 4096) % 4096;
  CHECK_THAT(why_refused(page, 2 * 4096), Catch::Matchers::Contains("stack"));
  CHECK(own.intact());
}
