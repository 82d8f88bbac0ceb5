// Ranks as threads of one process meet, and find each other as they should.
#include "bootstrap/thread_ranks.h"

#include <catch2/catch.hpp>

#include <cstring>

using namespace anello;
using namespace anello::control;
using anello::testing::Joined;
using anello::testing::join_threads;
using anello::testing::join_threads_by_id;

TEST_CASE("threads that hold a unique id meet and share one mapping") {
  for (const int size : {2, 4, 8}) {
    const std::vector<Joined> ranks = join_threads_by_id(size);
    for (int rank = 0; rank < size; ++rank) {
      INFO(ranks[rank].error.text());
      REQUIRE(ranks[rank].job);
      const Job& job = *ranks[rank].job;
      CHECK(job.rank() == rank);
      CHECK(job.size() == size);
      REQUIRE(job.members().size() == static_cast<std::size_t>(size));
      REQUIRE(job.arena());
      CHECK(job.arena().index() == rank);
      CHECK(&job.arena().header() == &ranks[0].job->arena().header());
      CHECK(job.arena().inbox(rank).state.load() == transport::RankState::alive);
      for (int peer = 0; peer < size; ++peer) {
        CHECK(job.members()[peer].rank == peer);
        CHECK(job.members()[peer].local_index == peer);
        CHECK(job.members()[peer].machine == job.members()[0].machine);
        CHECK(job.members()[peer].transport == (peer == rank ? 0u : std::uint32_t{kInproc}));
      }
    }
  }
}
