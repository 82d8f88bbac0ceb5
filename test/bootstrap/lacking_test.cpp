// Hosts that lack what most have: ranks meet all the same, or are told why not.
#include "bootstrap/rank_handle.h"
#include "support/catch.h"

#include <cstdlib>

#include <sys/syscall.h>

using namespace anello::testing;
using Catch::Matchers::Contains;

namespace {

// Two ranks that have been told what they lack; empty where that cannot be taken away.
std::vector<RankHandle> lacking(const std::string& command, const std::string& done) {
  std::vector<RankHandle> ranks(2);
  for (RankHandle& rank : ranks) {
    if (rank.ask(command, "") != done) return {};
  }
  return ranks;
}

}  // namespace

#define REQUIRE_LACKING(ranks)                                                       \
  if ((ranks).empty()) {                                                             \
    WARN("SKIPPED: needs the right to make namespaces, or filters of system calls"); \
    return;                                                                          \
  }

TEST_CASE("ranks of a host without /proc, or /proc/sys, share memory as others do") {
  for (const char* const path : {"/proc", "/proc/sys"}) {
    for (const char* const transports : {"-", "tcp"}) {
      std::vector<RankHandle> ranks = lacking(std::string("hide ") + path, "hidden");
      REQUIRE_LACKING(ranks);
      const std::string url = fresh_url();
      for (int rank = 0; rank < 2; ++rank) {
        ranks[std::size_t(rank)].tell(join_command(url, rank, 2, 30'000, transports));
      }
      const bool tcp = *transports == 't';
      INFO(path << ", transports " << transports);
      CHECK(ranks[0].hear("") == (tcp ? "joined - tcp" : "joined - shm"));
      CHECK(ranks[1].hear("") == (tcp ? "joined tcp -" : "joined shm -"));
    }
  }
}

TEST_CASE("one rank that can read /proc and one that cannot are on one host") {
  std::vector<RankHandle> ranks(2);
  if (ranks[1].ask("hide /proc", "") != "hidden") ranks.clear();
  REQUIRE_LACKING(ranks);
  const std::string url = fresh_url();
  for (int rank = 0; rank < 2; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 2));
  CHECK(ranks[0].hear("") == "joined - shm");
  CHECK(ranks[1].hear("") == "joined shm -");
}

TEST_CASE("ranks of a host with IPv6 alone meet at ::1 and have lanes there") {
  std::vector<RankHandle> anchor(1);
  const auto in_network = [&](const std::string& command) {
    const std::string in = "nsenter -t " + std::to_string(anchor[0].pid()) + " -n ";
    return std::system((in + command + " >/dev/null 2>&1").c_str()) == 0;
  };
  if (anchor[0].ask("network", "") != "network" || !in_network("ip link set lo up") ||
      !in_network("ip addr del 127.0.0.1/8 dev lo")) {
    WARN("SKIPPED: needs the right to make network namespaces, and the ip command");
    return;
  }
  std::vector<RankHandle> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(std::map<std::string, std::string>{}, anchor[0].pid());
  for (int rank = 0; rank < 2; ++rank) {
    ranks[std::size_t(rank)].tell(join_command("tcp://[::1]:4100", rank, 2, 30'000, "tcp"));
  }
  CHECK(ranks[0].hear("") == "joined - tcp");
  CHECK(ranks[1].hear("") == "joined tcp -");
  ranks[0].tell("lane 1");
  CHECK(ranks[0].hear("lane") == "lane 1");
  CHECK(ranks[1].hear("lane") == "lane 0");
}

TEST_CASE("without process descriptors ranks share memory, and see each other end") {
  std::vector<RankHandle> ranks = lacking("forbid " + std::to_string(SYS_pidfd_open), "forbidden");
  REQUIRE_LACKING(ranks);
  const std::string url = fresh_url();
  for (int rank = 0; rank < 2; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 2));
  CHECK(ranks[0].hear("") == "joined - shm");
  CHECK(ranks[1].hear("") == "joined shm -");
  ranks[1].kill();
  CHECK_THAT(ranks[0].hear("l"), Contains("lost 1"));
}

TEST_CASE("without memfd_create ranks take tcp, and say why where they may not") {
  for (const char* const transports : {"-", "shm"}) {
    std::vector<RankHandle> ranks = lacking("forbid " + std::to_string(SYS_memfd_create), "forbidden");
    REQUIRE_LACKING(ranks);
    const std::string url = fresh_url();
    for (int rank = 0; rank < 2; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 2, 30'000, transports));
    for (RankHandle& rank : ranks) {
      const std::string said = rank.hear("");
      if (*transports == 's') CHECK_THAT(said, Contains("memfd_create"));
      if (*transports == '-') CHECK_THAT(said, Contains("joined") && Contains("tcp"));
    }
  }
}
