// Ranks on two "hosts": network namespaces of their own, joined by a cable that the test makes. Needs root and ip.
#include "bootstrap/rank_handle.h"
#include "support/catch.h"

#include <cstdlib>
#include <fstream>

#include <sys/stat.h>

using anello::now_ns;
using anello::testing::join_command;
using anello::testing::RankHandle;
using Catch::Matchers::Contains;

namespace {

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// Ranks 0 and 1 in one namespace (10.77.0.1), 2 and 3 in the other (10.77.0.2). Empty where that is not allowed.
struct Hosts {
  std::string secret = "/tmp/anello-test-hosts-" + std::to_string(::getpid());
  // Whose namespaces the ranks enter. They stay, because a namespace without processes vanishes like a host without
  // power.
  std::vector<RankHandle> anchors = std::vector<RankHandle>(2);
  std::vector<RankHandle> ranks;
  bool possible = false;

  explicit Hosts(bool with_secret = true) {
    std::ofstream(secret) << "a secret of thirty-two characters";
    ::chmod(secret.c_str(), 0600);
    std::map<std::string, std::string> environment;
    if (with_secret) environment["ANELLO_SECRET_FILE"] = secret;
    for (RankHandle& anchor : anchors) {
      if (anchor.ask("network", "") != "network") return;
    }
    const std::string a = std::to_string(anchors[0].pid()), b = std::to_string(anchors[1].pid());
    possible = run("ip link add anello0 netns " + a + " type veth peer name anello0 netns " + b);
    for (int host = 0; host < 2 && possible; ++host) {
      const std::string in = "nsenter -t " + (host == 0 ? a : b) + " -n ip ";
      possible = run(in + "addr add 10.77.0." + std::to_string(host + 1) + "/24 dev anello0") &&
                 run(in + "link set anello0 up") && run(in + "link set lo up");
    }
    if (!possible) return;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(environment, anchors[std::size_t(rank / 2)].pid());
  }
  ~Hosts() { ::unlink(secret.c_str()); }

  void join(int size = 4, int timeout_ms = 30'000) {
    for (int rank = 0; rank < size; ++rank) {
      ranks[std::size_t(rank)].tell(join_command("tcp://10.77.0.1:4100", rank, size, timeout_ms));
    }
  }
};

}  // namespace

#define REQUIRE_HOSTS(hosts)                                                         \
  if (!(hosts).possible) {                                                           \
    WARN("SKIPPED: needs the right to make network namespaces, and the ip command"); \
    return;                                                                          \
  }

TEST_CASE("ranks on two hosts meet, share memory where they can and use tcp where they must") {
  for (const bool squatted : {false, true}) {
    Hosts hosts;
    REQUIRE_HOSTS(hosts);
    // As torchrun's store does: the ranks meet at the next port.
    if (squatted) CHECK(hosts.ranks[0].ask("squat 4100", "") == "ok");
    hosts.join();
    CHECK(hosts.ranks[0].hear("") == "joined - shm tcp tcp");
    CHECK(hosts.ranks[1].hear("") == "joined shm - tcp tcp");
    CHECK(hosts.ranks[2].hear("") == "joined tcp tcp - shm");
    CHECK(hosts.ranks[3].hear("") == "joined tcp tcp shm -");
    // One for each rank of this host, and none for the meeting place any more.
    CHECK(hosts.ranks[0].ask("listeners", "listeners") == (squatted ? "listeners 3" : "listeners 2"));
    for (int rank = 0; rank < 4; ++rank) {
      for (int peer = 0; peer < 4; ++peer) {
        if (peer / 2 != rank / 2) hosts.ranks[std::size_t(rank)].tell("lane " + std::to_string(peer));
      }
    }
    for (RankHandle& rank : hosts.ranks) {
      const std::string lanes = rank.hear("lane") + " " + rank.hear("lane");
      CHECK_THAT(lanes, !Contains("broken"));
      CHECK(lanes.size() == 13);
    }
  }
}

TEST_CASE("a death on one host is known on the other within a second, also when the lowest rank dies") {
  Hosts hosts;
  REQUIRE_HOSTS(hosts);
  hosts.join();
  for (RankHandle& rank : hosts.ranks) REQUIRE(!rank.hear("joined").empty());
  const std::int64_t start = now_ns();
  hosts.ranks[3].kill();
  for (const int rank : {0, 1, 2}) CHECK_THAT(hosts.ranks[std::size_t(rank)].hear("l"), Contains("lost 3"));
  hosts.ranks[0].kill();
  for (const int rank : {1, 2}) CHECK_THAT(hosts.ranks[std::size_t(rank)].hear("l"), Contains("lost 0"));
  // The links go to rank 1 now.
  hosts.ranks[2].kill();
  CHECK_THAT(hosts.ranks[1].hear("l"), Contains("lost 2"));
  CHECK((now_ns() - start) / 1'000'000 < 3'000);
}

TEST_CASE("when the lowest rank leaves the others compare calls over the next one") {
  Hosts hosts;
  REQUIRE_HOSTS(hosts);
  hosts.join();
  for (RankHandle& rank : hosts.ranks) REQUIRE(!rank.hear("joined").empty());
  CHECK(hosts.ranks[0].ask("leave", "gone") == "gone");
  for (const int rank : {1, 2, 3}) CHECK(hosts.ranks[std::size_t(rank)].hear("l") == "left 0");
  for (const int rank : {1, 2, 3}) {
    CHECK(hosts.ranks[std::size_t(rank)].ask("comm 9 1 2 3", "ok") == "ok");
    CHECK(hosts.ranks[std::size_t(rank)].ask("call 5 0 " + std::to_string(rank == 3 ? 7 : 8), "ok") == "ok");
  }
  hosts.ranks[2].tell("compare 9 5");
  for (const int rank : {1, 2, 3}) {
    CHECK_THAT(hosts.ranks[std::size_t(rank)].hear("failed"),
               Contains("ANELLO_ERR_MISMATCH") && Contains("count 7") && Contains("count 8"));
  }
}

TEST_CASE("ranks on two hosts without a secret do not meet, and are told how to") {
  Hosts hosts(false);
  REQUIRE_HOSTS(hosts);
  hosts.join(4, 1'000);
  for (const int rank : {2, 3})
    CHECK_THAT(hosts.ranks[std::size_t(rank)].hear(""), Contains("ANELLO_ERR_AUTH") && Contains("ANELLO_SECRET_FILE"));
  for (const int rank : {0, 1}) {
    CHECK_THAT(hosts.ranks[std::size_t(rank)].hear(""),
               Contains("ranks 2, 3 of 4 did not come") && Contains("ANELLO_SECRET_FILE"));
  }
}

TEST_CASE("without a secret rank 0 says what is missing, at once where it is known to have ranks elsewhere") {
  Hosts hosts(false);
  REQUIRE_HOSTS(hosts);
  const std::map<std::string, std::string> of_launcher{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}};
  RankHandle rank(of_launcher, hosts.anchors[0].pid());
  std::int64_t start = now_ns();
  rank.tell(join_command("tcp://10.77.0.1:4100", 0, 4, 60'000));
  CHECK_THAT(rank.hear(""), Contains("ANELLO_ERR_AUTH") && Contains("several hosts") && Contains("ANELLO_SECRET_FILE"));
  CHECK((now_ns() - start) / 1'000'000 < 10'000);
  // Where nothing tells, all of them may yet come: after a part of the time the log says what may be wrong.
  const std::string log = hosts.secret + "-log";
  RankHandle patient({{"ANELLO_LOG_FILE", log}}, hosts.anchors[0].pid());
  start = now_ns();
  patient.tell(join_command("tcp://10.77.0.1:4100", 0, 4, 60'000));
  std::string logged;
  while (logged.empty() && (now_ns() - start) / 1'000'000 < 20'000) {
    ::usleep(20'000);
    std::ifstream file(log);
    std::getline(file, logged);
  }
  CHECK_THAT(logged, Contains("ranks 1, 2, 3 of 4 did not come yet") && Contains("ANELLO_SECRET_FILE"));
  ::unlink(log.c_str());
}

TEST_CASE("ranks of one host that meet at an abstract socket listen nowhere") {
  Hosts hosts;
  REQUIRE_HOSTS(hosts);
  for (const int rank : {0, 1}) hosts.ranks[std::size_t(rank)].tell(join_command("unix://here", rank, 2));
  for (const int rank : {0, 1}) REQUIRE(!hosts.ranks[std::size_t(rank)].hear("joined").empty());
  CHECK(hosts.ranks[0].ask("listeners", "listeners") == "listeners 0");
}
