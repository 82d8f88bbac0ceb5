// Tests how regions are made, found by address, mapped from a passed range, moved under a mapping, and freed for all.
#include "base/error.h"
#include "memory/backing.h"
#include "memory/made_regions.h"
#include "support/catch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::memory;

TEST_CASE("a region is zeroed, begins on a page, and is found by any address in it") {
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

TEST_CASE("two mappings of a region share its bytes until it is freed") {
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
  // A process has one mapping, however often it asks.
  CHECK(map_again(base) == mapping);
  const std::uint64_t region = find_region(base, 1).region;
  CHECK(RegionMapping::find(region) == mapping);
  const std::uint64_t there = regions_version();
  CHECK(free_region(base));
  CHECK(regions_version() != there);
  CHECK(!free_region(base));
  CHECK(find_region(base, 1).region == 0);
  CHECK(!pass_region(region));
  // Its pages are gone for all processes, and reading them kills none.
  CHECK(mapping->data()[77'777] == std::byte{0});
}

TEST_CASE("a moved region keeps its address and contents, and an old mapping no longer reaches it") {
  const Made made(100'000);
  std::memset(made.base, 0x5a, 100'000);
  const std::uint64_t old = find_region(made.base, 1).region;
  const auto stale = map_again(made.base);
  REQUIRE(move_region(made.base + 50'000));
  CHECK(find_region(made.base, 100'000).region != old);
  CHECK(!pass_region(old));
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(made.base[i] == std::byte{0x5a});
  // A peer that is reading it for another call finds the old contents.
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(stale->data()[i] == std::byte{0x5a});
  std::memset(stale->data(), 0x11, 100'000);
  for (std::size_t i = 0; i < 100'000; ++i) REQUIRE(made.base[i] == std::byte{0x5a});
  const auto fresh = map_again(made.base);
  fresh->data()[9] = std::byte{1};
  CHECK(made.base[9] == std::byte{1});
  int local = 0;
  CHECK(!move_region(&local));
}

namespace {

// Returns how many KiB of the range huge pages map.
std::size_t huge_kib(const std::byte* base, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  std::size_t sum = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-')
      inside = begin < from + bytes && end > from;
    if (inside && line.rfind("ShmemPmdMapped:", 0) == 0) sum += std::stoul(line.substr(15));
  }
  return sum;
}

// Empty if every request for huge pages of shared memory gets them.
std::string why_no_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string setting;
  if (!std::getline(file, setting)) return "the kernel has no transparent huge pages";
  for (const char* given : {"[advise]", "[within_size]", "[always]", "[force]"}) {
    if (setting.find(given) != std::string::npos) return "";
  }
  return "the kernel's transparent_hugepage/shmem_enabled is " + setting;
}

}  // namespace

TEST_CASE("a region for huge pages lies where they can be mapped in all processes, whatever was made before",
          "[huge]") {
  const Made before(1);
  constexpr std::size_t kBytes = 2 * kHugePage + 4096;
  // A kernel without huge pages maps memory wherever there is room.
  const bool are_given = why_no_huge_pages().empty();
  const auto rest = [=](const void* address) {
    return are_given ? reinterpret_cast<std::uintptr_t>(address) % kHugePage : 0;
  };
  const Made made(kBytes, {true, -1}), plain(kBytes), small(kHugePage / 2, {true, -1}), last(kBytes, {true, -1});
  for (const Made* each : {&made, &last}) {
    CHECK(pass(each->base).offset % kHugePage == 0);
    CHECK(rest(each->base) == 0);
    CHECK(rest(map_again(each->base)->data()) == 0);
    std::memset(each->base, 1, kBytes);
    REQUIRE(move_region(each->base));
    CHECK(pass(each->base).offset % kHugePage == 0);
    CHECK(each->base[kBytes - 1] == std::byte{1});
  }
  CHECK(pass(small.base).offset == pass(plain.base).offset + pass(plain.base).bytes);
}

TEST_CASE("requested huge pages exist at once, and after the region is moved, if the kernel gives them", "[huge]") {
  if (const std::string why = why_no_huge_pages(); !why.empty()) {
    WARN("SKIPPED: " << why);
    return;
  }
  constexpr std::size_t kBytes = 8 * kHugePage + 12'288;
  const Made before(1);
  const std::size_t others = pages_in_bytes(pass(before.base));
  const Made made(kBytes, {true, -1}), small(kHugePage / 2, {true, -1});
  CHECK(huge_kib(made.base, kBytes) == 8 * kHugePage / 1024);
  // A part that does not fill a huge page has no more memory than was requested.
  CHECK(pages_in_bytes(pass(before.base)) - others == kBytes + kHugePage / 2);
  const auto peer = map_again(made.base);
  CHECK(huge_kib(peer->data(), kBytes) == 8 * kHugePage / 1024);
  std::memset(made.base, 0x5a, kBytes);
  REQUIRE(move_region(made.base));
  CHECK(std::all_of(made.base, made.base + kBytes, [](std::byte each) { return each == std::byte{0x5a}; }));
  CHECK(huge_kib(made.base, kBytes) == 8 * kHugePage / 1024);
}

namespace {

constexpr unsigned long kNodeBits = 1024;

struct Policy {
  int mode = -1;
  unsigned long nodes[kNodeBits / (8 * sizeof(unsigned long))] = {};
  bool has(int node) const { return (nodes[std::size_t(node) / 64] >> (node % 64) & 1) != 0; }
  int count() const {
    int sum = 0;
    for (const unsigned long word : nodes) sum += __builtin_popcountl(word);
    return sum;
  }
};

// If address is null: the nodes that this process may use.
bool get_policy(Policy& policy, const void* address) {
  const unsigned long flags = address != nullptr ? MPOL_F_ADDR : MPOL_F_MEMS_ALLOWED;
  return ::syscall(SYS_get_mempolicy, &policy.mode, policy.nodes, kNodeBits, address, flags) == 0;
}

// Returns how many of the region's pages lie on another node, or nowhere.
int elsewhere(std::byte* base, std::size_t bytes, int node) {
  int wrong = 0;
  for (std::size_t at = 0; at < bytes; at += 4096) {
    void* page = base + at;
    CHECK(base[at] == std::byte{0});  // older kernels map a page only when it is touched
    int where = -1;
    if (::syscall(SYS_move_pages, 0, 1ul, &page, nullptr, &where, 0) != 0 || where != node) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE("pages lie on the requested node in all mappings, also after the region is moved", "[node]") {
  Policy allowed;
  if (!get_policy(allowed, nullptr)) {
    WARN("SKIPPED: this kernel or container does not report NUMA nodes (get_mempolicy)");
    return;
  }
  int node =
      static_cast<int>(kNodeBits) - 1;  // the last one: if there are several, pages would not come there by themselves
  while (!allowed.has(node)) --node;
  constexpr std::size_t kBytes = 300'000;
  const Made made(kBytes, {false, node});
  const auto lies_there = [&](std::byte* base) {
    Policy policy;
    REQUIRE(get_policy(policy, base + kBytes - 1));
    CHECK(policy.mode == MPOL_BIND);
    CHECK(policy.count() == 1);
    CHECK(policy.has(node));
    CHECK(elsewhere(base, kBytes, node) == 0);
  };
  lies_there(made.base);
  lies_there(map_again(made.base)->data());
  REQUIRE(move_region(made.base));
  lies_there(made.base);

  const Made anywhere(kBytes);
  Policy policy;
  REQUIRE(get_policy(policy, anywhere.base));
  CHECK(policy.mode != MPOL_BIND);
}

TEST_CASE("a request for more than a node has is an error, even if others have it", "[node]") {
  Policy allowed;
  int node = static_cast<int>(kNodeBits) - 1;
  while (get_policy(allowed, nullptr) && !allowed.has(node)) --node;
  std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  std::string word, number, name;
  std::size_t kibibytes = 0;
  if (!(file >> word >> number >> name >> kibibytes) || name != "MemTotal:") {
    WARN("SKIPPED: this kernel or container does not report NUMA nodes");
    return;
  }
  CHECK_THROWS_AS(make_region(kibibytes * 1024, {false, node}), Error);
}

TEST_CASE("a region into which others have pointers is not moved, and calls do not find it") {
  const Made made(100'000);
  const std::uint64_t region = find_region(made.base, 1).region;
  const std::uint64_t before = regions_version();
  const RegionSpot spot = keep_in_place(made.base + 5000, 1000);
  CHECK(spot == RegionSpot{region, 5000});
  CHECK(regions_version() != before);
  CHECK(find_region(made.base, 1).region == 0);
  CHECK(pass_region(region));
  CHECK(keep_in_place(made.base, 1).region == spot.region);
  int local = 0;
  CHECK(keep_in_place(&local, sizeof local).region == 0);
  CHECK(is_kept_in_place(made.base));
  CHECK_FALSE(move_region(made.base));
  let_move(spot.region);
  CHECK_FALSE(move_region(made.base));
  CHECK(find_region(made.base, 1).region == 0);
  const std::uint64_t kept = regions_version();
  let_move(spot.region);
  let_move(spot.region);  // no keep_in_place is left
  CHECK(regions_version() != kept);
  CHECK(find_region(made.base, 1).region == region);
  CHECK_FALSE(is_kept_in_place(made.base));
  CHECK(move_region(made.base));
}

TEST_CASE("an impossible request is an error with a reason") {
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
  CHECK(code_of(std::size_t{1} << 50, {}) == ANELLO_ERR_RESOURCE);  // more than any machine has
  RegionWish nowhere;
  nowhere.numa_node = 1000;
  const anello_result_t bound = code_of(4096, nowhere);
  CHECK((bound == ANELLO_ERR_ARGUMENT || bound == ANELLO_OK));  // OK if this kernel cannot place pages
  nowhere.numa_node = 100'000;
  CHECK(code_of(4096, nowhere) == ANELLO_ERR_ARGUMENT);
  CHECK(code_of(1 << 22, {true, -1}) == ANELLO_OK);
}

TEST_CASE("a forked child shares the memory and does not take it away") {
  const Made made(8192);
  const std::uint64_t region = find_region(made.base, 1).region;
  const PassedRange range = pass_region(region);
  const auto length = about(range).st_size;
  const pid_t child = ::fork();
  if (child == 0) {
    made.base[1] = std::byte{9};
    int wrong = 0;
    // In the child, other files get the numbers of the parent's descriptors.
    for (int number = 0; number < 100; ++number) [[maybe_unused]] const int other = ::open("/dev/null", O_RDONLY);
    if (pass_region(region)) wrong = 1;
    if (move_region(made.base)) wrong = 2;
    free_region(made.base);
    try {
      make_region(8192);
      wrong = 3;
    } catch (const Error& error) {
      if (error.code() != ANELLO_ERR_FORKED) wrong = 4;
    }
    ::_exit(wrong);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(made.base[1] == std::byte{9});
  CHECK(about(range).st_size == length);
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

TEST_CASE("the caller's memory becomes a region with its contents, and private memory again") {
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
    mapping->data()[0] = std::byte{99};  // the old pages, which the region no longer has
    CHECK(own.intact());
  }
}

TEST_CASE("a refused registration has a reason, and leaves the memory as it is") {
  const Pages own(8 * 4096);
  CHECK_THAT(why_refused(own.at + 64, 4096), Catch::Matchers::Contains("multiples of the page size"));
  CHECK_THAT(why_refused(own.at, 5000), Catch::Matchers::Contains("multiples of the page size"));
  CHECK_THROWS_AS(deregister_region(own.at), Error);

  register_region(own.at + 4096, 2 * 4096);
  CHECK_THAT(why_refused(own.at, 2 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK_THAT(why_refused(own.at + 2 * 4096, 4 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK_THAT(why_refused(own.at, 8 * 4096), Catch::Matchers::Contains("registered already"));
  CHECK(why_refused(own.at + 3 * 4096, 4096).empty());
  CHECK_THROWS_AS(deregister_region(own.at + 2 * 4096), Error);  // not its beginning
  deregister_region(own.at + 3 * 4096);
  deregister_region(own.at + 4096);

  const Made made(4096);
  CHECK_THAT(why_refused(made.base, 4096), Catch::Matchers::Contains("anello_mem_alloc"));
  CHECK_THROWS_AS(deregister_region(made.base), Error);

  auto* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  CHECK_THAT(why_refused(shared, 4096), Catch::Matchers::Contains("shared"));
  ::munmap(shared, 4096);
  auto* const hole =
      static_cast<std::byte*>(::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(hole != MAP_FAILED);
  ::mprotect(hole + 4096, 4096, PROT_READ);
  CHECK_THAT(why_refused(hole, 3 * 4096), Catch::Matchers::Contains("may not be read and written"));
  ::munmap(hole + 4096, 4096);
  CHECK_THAT(why_refused(hole, 3 * 4096), Catch::Matchers::Contains("not mapped"));
  ::munmap(hole, 3 * 4096);
  std::byte local[3 * 4096];  // not alignas: sanitizers do not keep it
  auto* const page = local + (4096 - reinterpret_cast<std::uintptr_t>(local) % 4096) % 4096;
  CHECK_THAT(why_refused(page, 2 * 4096), Catch::Matchers::Contains("stack"));
  CHECK(own.intact());
}
