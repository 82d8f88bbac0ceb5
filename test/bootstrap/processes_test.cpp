// Ranks as processes: they meet, and learn what becomes of each other.
#include "bootstrap/rank_handle.h"
#include "support/catch.h"

using anello::Deadline;
using anello::now_ns;
using anello::testing::fresh_url;
using anello::testing::join_command;
using anello::testing::join_processes;
using anello::testing::RankHandle;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

TEST_CASE("processes of one host meet at an abstract socket and use shared memory") {
  for (const int size : {2, 4, 8}) {
    const std::string url = fresh_url();
    std::vector<RankHandle> ranks(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, size));
    for (int rank = 0; rank < size; ++rank) {
      std::string expected = "joined";
      for (int peer = 0; peer < size; ++peer) expected += peer == rank ? " -" : " shm";
      CHECK(ranks[std::size_t(rank)].hear("") == expected);
    }
  }
}

TEST_CASE("processes that may use tcp only meet, and find each other over loopback") {
  std::vector<RankHandle> ranks = join_processes(3, "tcp");
  ranks[0].tell("lane 1");
  ranks[1].tell("lane 0");
  ranks[2].tell("lane 0");
  CHECK(ranks[1].hear("lane") == "lane 0");
  CHECK(ranks[2].hear("lane") == "lane 0");
  std::string both = ranks[0].hear("lane");
  both += ranks[0].hear("lane");
  CHECK_THAT(both, Equals("lane 1lane 2") || Equals("lane 2lane 1"));
}

TEST_CASE("missing ranks are listed by number when the deadline passes") {
  const std::string url = fresh_url();
  std::vector<RankHandle> ranks(3);
  ranks[0].tell(join_command(url, 0, 5, 1'000));
  ranks[1].tell(join_command(url, 1, 5, 1'000));
  ranks[2].tell(join_command(url, 3, 5, 1'000));
  for (RankHandle& rank : ranks) {
    CHECK_THAT(rank.hear("error"),
               Contains("ANELLO_ERR_RENDEZVOUS") && Contains("ranks 2, 4 of 5 did not come within 1 s"));
  }
}

TEST_CASE("without rank 0 the others say that it did not come") {
  RankHandle rank;
  rank.tell(join_command(fresh_url(), 1, 2, 300));
  CHECK_THAT(rank.hear("error"), Contains("ANELLO_ERR_RENDEZVOUS") && Contains("rank 0 was not reached"));
}

TEST_CASE("two processes that claim one rank are named on all sides") {
  for (const int doubled : {0, 1}) {
    const std::string url = fresh_url();
    std::vector<RankHandle> ranks(4);
    ranks[0].tell(join_command(url, 0, 4));
    ranks[1].tell(join_command(url, 1, 4));
    ranks[2].tell(join_command(url, 2, 4));
    // Not before the place is there: else the second rank 0 could be the one that hosts it.
    ranks[3].tell(join_command(url, doubled, 4));
    const std::string first = std::to_string(ranks[std::size_t(doubled)].pid());
    const std::string second = std::to_string(ranks[3].pid());
    for (RankHandle& rank : ranks) {
      CHECK_THAT(rank.hear("error"), Contains("ANELLO_ERR_RENDEZVOUS") && Contains("claim to be rank") &&
                                         Contains("pid " + first) && Contains("pid " + second));
    }
  }
}

TEST_CASE("ranks that differ about the size are named on all sides") {
  const std::string url = fresh_url();
  std::vector<RankHandle> ranks(3);
  ranks[0].tell(join_command(url, 0, 3));
  ranks[1].tell(join_command(url, 1, 3));
  ranks[2].tell(join_command(url, 2, 4));
  for (RankHandle& rank : ranks) {
    CHECK_THAT(rank.hear("error"), Contains("ANELLO_ERR_RENDEZVOUS") && Contains("size") && Contains("says 3") &&
                                       Contains("says 4") && Contains(std::to_string(ranks[2].pid())));
  }
}

TEST_CASE("a process killed while the others still come fails creation everywhere at once, and is named") {
  const std::string url = fresh_url();
  std::vector<RankHandle> ranks(3);
  for (int rank = 0; rank < 3; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 4, 60'000));
  // That it has come is seen by a doubled rank alone, so: kill it, and see whether its seat was noticed. If it had not
  // come yet, the deadline of 60 s would pass the limit below.
  const std::string killed = std::to_string(ranks[1].pid());
  ::usleep(300'000);
  ranks[1].kill();
  for (const int rank : {0, 2}) {
    const std::string said = ranks[std::size_t(rank)].hear("error");
    CHECK_THAT(said, Contains("ANELLO_ERR_RENDEZVOUS") && Contains("rank 1") && Contains("pid " + killed));
  }
}

TEST_CASE("a killed rank is lost at all survivors within a second, named, also while a forked child of it lives") {
  for (const char* const transports : {"shm", "tcp"}) {
    for (const int victim : {0, 2}) {
      std::vector<RankHandle> ranks = join_processes(4, transports);
      const std::string child = ranks[std::size_t(victim)].ask("fork", "forked");
      const std::string pid = std::to_string(ranks[std::size_t(victim)].pid());
      const std::int64_t start = now_ns();
      ranks[std::size_t(victim)].kill();
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        INFO(transports << ", victim " << victim << ", at rank " << rank);
        CHECK_THAT(ranks[std::size_t(rank)].hear("lost"),
                   Contains("lost " + std::to_string(victim) + " ") && Contains("pid " + pid));
      }
      CHECK((now_ns() - start) / 1'000'000 < 1'000);
      ::kill(std::stoi(child.substr(7)), SIGKILL);
    }
  }
}

TEST_CASE("who leaves has left and is not lost, whichever rank it is, and the others see a death after that") {
  for (const char* const transports : {"shm", "tcp"}) {
    std::vector<RankHandle> ranks = join_processes(4, transports);
    CHECK(ranks[0].ask("leave", "gone") == "gone");
    for (int rank = 1; rank < 4; ++rank) CHECK(ranks[std::size_t(rank)].hear("l") == "left 0");
    ranks[0].kill();
    ranks[2].kill();
    for (const int rank : {1, 3}) CHECK_THAT(ranks[std::size_t(rank)].hear("l"), Contains("lost 2"));
    CHECK(ranks[1].ask("leave", "gone") == "gone");
    CHECK(ranks[3].hear("l") == "left 1");
  }
}

TEST_CASE("two ranks that ask for a lane at once get one") {
  std::vector<RankHandle> ranks = join_processes(2, "tcp");
  for (RankHandle& rank : ranks) {
    rank.tell("lane 0\nlane 1\nlane 0");  // also to oneself: nothing must come of it but an error line at most
  }
  CHECK(ranks[0].hear("lane 1") == "lane 1");
  CHECK(ranks[1].hear("lane 0") == "lane 0");
  CHECK(ranks[0].hear("lane 1", 200).empty());
  CHECK(ranks[1].hear("lane 0", 200).empty());
}

TEST_CASE("the same place serves one creation after another, and none leaves a descriptor") {
  const std::string url = fresh_url();
  std::vector<RankHandle> ranks = join_processes(3, "-", url);
  for (RankHandle& rank : ranks) CHECK(rank.ask("leave", "gone") == "gone");
  std::vector<std::string> before;
  for (RankHandle& rank : ranks) before.push_back(rank.ask("fds", "fds"));
  for (int round = 0; round < 5; ++round) {
    for (int rank = 0; rank < 3; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 3));
    for (RankHandle& rank : ranks) REQUIRE(!rank.hear("joined").empty());
    for (RankHandle& rank : ranks) CHECK(rank.ask("leave", "gone") == "gone");
  }
  // On a loaded machine the last connections of a place are closed a little later than a rank is gone.
  const Deadline limit = Deadline::in_ms(10'000);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::string now = ranks[rank].ask("fds", "fds");
    while (now != before[rank] && !limit.passed()) now = ranks[rank].ask("fds", "fds");
    CHECK(now == before[rank]);
  }
}

TEST_CASE("ranks that disagree on a call all hear of both calls, and a late one disturbs nobody") {
  std::vector<RankHandle> ranks = join_processes(4);
  for (RankHandle& rank : ranks) CHECK(rank.ask("comm 7 0 1 2 3", "ok") == "ok");
  for (RankHandle& rank : ranks) CHECK(rank.ask("call 16 0 1000", "ok") == "ok");
  for (const int rank : {0, 1, 3}) CHECK(ranks[std::size_t(rank)].ask("call 17 0 1000", "ok") == "ok");
  ranks[0].tell("compare 7 17");
  CHECK(ranks[1].hear("failed", 300).empty());
  CHECK(ranks[2].ask("call 17 1 10", "ok") == "ok");
  ranks[2].tell("compare 7 17");
  for (RankHandle& rank : ranks) {
    CHECK_THAT(rank.hear("failed"), Contains("failed 7 ANELLO_ERR_MISMATCH") && Contains("operation 17") &&
                                        Contains("ranks 0, 1, 3 called allreduce(count 1000") &&
                                        Contains("rank 2 called broadcast(count 10"));
  }
}

TEST_CASE("a rank that destroyed the communicator before the operation makes it fail; one that had done it does not") {
  std::vector<RankHandle> ranks = join_processes(3);
  for (RankHandle& rank : ranks) CHECK(rank.ask("comm 7 0 1 2", "ok") == "ok");
  for (RankHandle& rank : ranks) CHECK(rank.ask("call 16 0 1000", "ok") == "ok");
  CHECK(ranks[2].ask("remove 7", "ok") == "ok");
  ranks[0].tell("compare 7 16");
  CHECK(ranks[0].hear("failed", 300).empty());
  CHECK(ranks[0].ask("call 17 0 1000", "ok") == "ok");
  ranks[0].tell("compare 7 17");
  for (const int rank : {0, 1}) {
    CHECK_THAT(ranks[std::size_t(rank)].hear("failed"), Contains("ANELLO_ERR_PEER_LOST") && Contains("rank 2 left"));
  }
}
