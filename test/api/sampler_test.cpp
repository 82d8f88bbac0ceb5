// Shards against what torch 2.13's DistributedSampler gave; sampler_torch_test.py asks it anew where it is there.
#include <anello/sampler.h>

#include "support/catch.h"

#include <cstring>
#include <set>
#include <vector>

namespace {

std::vector<int64_t> shard(const anello_sampler_t& sampler, uint64_t epoch) {
  size_t count = 0;
  REQUIRE(anello_sampler_count(&sampler, &count) == ANELLO_OK);
  std::vector<int64_t> indices(count + 1, -7);
  REQUIRE(anello_sampler_indices(&sampler, epoch, indices.data()) == ANELLO_OK);
  CHECK(indices.back() == -7);
  indices.pop_back();
  return indices;
}

anello_sampler_t sampler(int64_t samples, int rank, int ranks, bool shuffle, bool drop_last, uint64_t seed) {
  anello_sampler_t made = ANELLO_SAMPLER_INITIALIZER;
  made.samples = samples;
  made.rank = rank;
  made.world_size = ranks;
  made.shuffle = shuffle;
  made.drop_last = drop_last;
  made.seed = seed;
  return made;
}

}  // namespace

TEST_CASE("a shard is what DistributedSampler gives") {
  struct Known {
    int64_t samples;
    int rank, ranks;
    bool shuffle, drop_last;
    uint64_t seed, epoch;
    std::vector<int64_t> indices;
  };
  const std::vector<Known> table = {
      {10, 0, 3, true, false, 0u, 0u, {4, 5, 0, 2}},
      {10, 2, 3, true, false, 0u, 0u, {7, 9, 6, 1}},
      {10, 2, 3, true, true, 0u, 0u, {7, 9, 6}},
      {10, 1, 3, false, false, 0u, 7u, {1, 4, 7, 0}},
      {10, 1, 3, false, true, 0u, 7u, {1, 4, 7}},
      {3, 7, 8, true, false, 5u, 1u, {0}},
      {3, 2, 8, true, true, 5u, 1u, {}},
      {12, 3, 4, true, false, 4294967295u, 2u, {8, 3, 7}},
      {60000, 5999, 6000, true, false, 42u, 9u, {10395, 30208, 56904, 42061, 26652, 43431, 28763, 22801, 51667, 2458}},
  };
  for (const Known& each : table) {
    INFO(each.samples << " samples, rank " << each.rank << " of " << each.ranks);
    CHECK(shard(sampler(each.samples, each.rank, each.ranks, each.shuffle, each.drop_last, each.seed), each.epoch) ==
          each.indices);
  }
}

TEST_CASE("the shards of all ranks are the data set, once each, and what pads it") {
  for (const int64_t samples : {int64_t(0), int64_t(1), int64_t(5), int64_t(64), int64_t(1000), int64_t(1001)}) {
    for (const int ranks : {1, 2, 3, 7, 64}) {
      std::multiset<int64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto its = shard(sampler(samples, rank, ranks, true, false, 3), 11);
        all.insert(its.begin(), its.end());
      }
      const std::set<int64_t> different(all.begin(), all.end());
      CHECK(int64_t(different.size()) == samples);
      CHECK(all.size() == size_t((samples + ranks - 1) / ranks * ranks));
      if (samples > 0) CHECK((*different.begin() == 0 && *different.rbegin() == samples - 1));
    }
  }
}

TEST_CASE("what makes no sharding is refused with what is wrong") {
  size_t count = 77;
  anello_sampler_t bad = sampler(10, 3, 3, true, false, 0);
  CHECK(anello_sampler_count(&bad, &count) == ANELLO_ERR_ARGUMENT);
  CHECK_THAT(anello_last_error(ANELLO_COMM_NULL), Catch::Contains("rank is 3, but world_size 3"));
  bad = sampler(-1, 0, 3, true, false, 0);
  CHECK(anello_sampler_indices(&bad, 0, nullptr) == ANELLO_ERR_ARGUMENT);
  CHECK_THAT(anello_last_error(ANELLO_COMM_NULL), Catch::Contains("samples is -1"));
  bad = sampler(1, 0, 0, true, false, 0);
  CHECK(anello_sampler_count(&bad, &count) == ANELLO_ERR_ARGUMENT);
  CHECK_THAT(anello_last_error(ANELLO_COMM_NULL), Catch::Contains("world_size is 0"));
  bad.size = 4;
  CHECK(anello_sampler_count(&bad, &count) == ANELLO_ERR_ARGUMENT);
  CHECK_THAT(anello_last_error(ANELLO_COMM_NULL), Catch::Contains("ANELLO_SAMPLER_INITIALIZER"));
  CHECK(anello_sampler_count(nullptr, &count) == ANELLO_ERR_ARGUMENT);
  const anello_sampler_t good = sampler(1, 0, 1, true, false, 0);
  CHECK(anello_sampler_count(&good, nullptr) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_sampler_indices(&good, 0, nullptr) == ANELLO_ERR_ARGUMENT);
  CHECK(count == 77);
}
