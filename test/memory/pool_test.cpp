// All regions of a process share one file: its descriptors, its ranges, and the ranges that other processes claim.
#include "base/error.h"
#include "memory/made_regions.h"
#include "support/catch.h"

#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace anello;
using namespace anello::memory;

TEST_CASE("memory that is not sealed against shrinking is not mapped") {
  UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC));
  REQUIRE(::fallocate(plain.get(), 0, 0, 8192) == 0);
  CHECK_THROWS_AS(RegionMapping::of(12345, {std::move(plain), 0, 8192}), Error);
  CHECK_THROWS_AS(RegionMapping::of(12345, {}), Error);
  CHECK(RegionMapping::find(12345) == nullptr);
}

TEST_CASE("a range that is impossible, or that would cost this process pages, is not mapped") {
  const Made made(8 * 4096);
  const PassedRange own = pass(made.base);
  const std::uint64_t end = own.offset + own.bytes;
  REQUIRE(std::uint64_t(about(own).st_size) >= end);
  const auto is_refused = [&](std::uint64_t offset, std::uint64_t bytes) {
    CAPTURE(offset, bytes);
    try {
      RegionMapping::of(12346, {UniqueFd(::dup(own.file.get())), offset, bytes});
      return false;
    } catch (const Error& error) {
      return error.code() == ANELLO_ERR_CORRUPT;
    }
  };
  const auto size = std::uint64_t(about(own).st_size);
  CHECK(is_refused(own.offset, 0));
  CHECK(is_refused(own.offset, own.bytes - 1));
  CHECK(is_refused(own.offset + 1, 4096));
  CHECK(is_refused(own.offset, size - own.offset + 4096));
  CHECK(is_refused(size, 4096));
  CHECK(is_refused(0 - std::uint64_t{4096}, 4096));
  CHECK(is_refused(own.offset, 0 - std::uint64_t{4096}));
  CHECK(is_refused(0 - std::uint64_t{4096}, 8192));
  CHECK(RegionMapping::find(12346) == nullptr);
  // This file is long and has no pages.
  UniqueFd empty(::memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(empty.get(), off_t{1} << 40) == 0);
  REQUIRE(::fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK_THROWS_AS(RegionMapping::of(12347, {std::move(empty), 0, std::uint64_t{1} << 40}), Error);
  CHECK(!is_refused(own.offset, own.bytes));
}

namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::size_t(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("any number of regions costs one descriptor, including their mappings") {
  constexpr std::size_t kRegions = 2000;
  const std::size_t before = open_descriptors();
  std::vector<std::unique_ptr<Made>> all;
  std::vector<std::shared_ptr<RegionMapping>> mapped;
  for (std::size_t i = 0; i < kRegions; ++i) {
    all.push_back(std::make_unique<Made>(i % 3 == 0 ? 4096 : 1));
    mapped.push_back(map_again(all.back()->base));
    all.back()->base[0] = std::byte(i);
  }
  CHECK(open_descriptors() <= before + 2);
  for (std::size_t i = 0; i < kRegions; ++i) REQUIRE(mapped[i]->data()[0] == std::byte(i));
}

TEST_CASE("a range is given out once, and freed ranges take no memory") {
  const Made first(4096);
  const PassedRange lasting = pass(first.base);
  const std::size_t before = pages_in_bytes(lasting);
  std::vector<PassedRange> all;
  for (int i = 0; i < 50; ++i) {
    std::byte* const base = make_region(30'000, {i % 7 == 0, -1});
    std::memset(base, 1, 30'000);
    if (i % 5 == 0) {
      all.push_back(pass(base));
      REQUIRE(move_region(base));
    }
    all.push_back(pass(base));
    free_region(base);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(of_one_file(all[i], lasting));
    CHECK_FALSE(overlap(all[i], lasting));
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(overlap(all[i], all[j]));
  }
  CHECK(pages_in_bytes(lasting) == before);
}

TEST_CASE("a file of the greatest length is followed by another, and lives while it has regions") {
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const std::size_t before = open_descriptors();
  rlimit few = usual;
  few.rlim_cur = 1 << 20;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &few) == 0);
  std::vector<std::byte*> made;
  for (int i = 0; i < 4; ++i) made.push_back(make_region(600'000));
  const std::size_t with_all = open_descriptors();
  std::vector<PassedRange> all;
  for (std::byte* each : made) all.push_back(pass(each));
  for (std::byte* each : made) free_region(each);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(of_one_file(all[i], all[j]));
  }
  CHECK(with_all <= before + 4);
  all.clear();
  CHECK(open_descriptors() <= before + 1);
}
