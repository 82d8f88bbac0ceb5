#include "executor/rank_thread.h"
#include "transports/shm/transport.h"

#include <atomic>

using namespace anello;
using namespace anello::test;

namespace {

const MakeTransport kShm = [](const memory::Arena& arena, int) { return transport::make_shm(arena); };

float value(int rank, std::size_t i) { return float(rank + 1) * float(i % 97 + 1); }

}  // namespace

TEST_CASE("every all-reduce algorithm gives every rank the sum, over shared memory") {
  for (const int size : {2, 3, 4, 5}) {
    LocalJobs jobs(size, transport::bit_of("shm"));
    std::atomic<int> wrong{0};
    std::atomic<int> failed{0};
    on_ranks(size, [&](int rank) {
      RankThread me(jobs, rank, transport::bit_of("shm"), kShm);
      for (const char* algorithm : {"ring", "pairwise", "doubling", "tree", "exchange"}) {
        for (const std::size_t count :
             {std::size_t(1), std::size_t(size) - 1, std::size_t(size) + 1, std::size_t(1000), std::size_t(100'003)}) {
          if (std::string(algorithm) == "exchange" && count > 1000) continue;
          std::vector<float> data(count);
          for (std::size_t i = 0; i < count; ++i) data[i] = value(rank, i);
          if (me.finish(me.allreduce(data.data(), count, algorithm))) ++failed;
          for (std::size_t i = 0; i < count; ++i) {
            if (data[i] != value(size * (size + 1) / 2 - 1, i)) ++wrong;
          }
        }
      }
    });
    CHECK(failed == 0);
    CHECK(wrong == 0);
  }
}

TEST_CASE("many operations of several communicators posted in opposite orders complete") {
  constexpr int kSize = 3, kGroups = 4, kOperations = 16;
  LocalJobs jobs(kSize, transport::bit_of("shm"));
  std::atomic<int> wrong{0};
  on_ranks(kSize, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), kShm);
    std::vector<std::unique_ptr<executor::Group>> groups;
    for (int g = 0; g < kGroups; ++g) groups.push_back(me.add_group(std::uint64_t(100 + g), kSize, -1, 0xfffffff8u));
    std::vector<std::vector<float>> data;
    std::vector<executor::Operation*> operations;
    for (int i = 0; i < kGroups * kOperations; ++i) data.emplace_back(3001, float(rank + 1));
    for (int i = 0; i < kGroups; ++i) {
      const int g = rank % 2 == 0 ? i : kGroups - 1 - i;
      for (int k = 0; k < kOperations; ++k) {
        operations.push_back(me.allreduce(data[std::size_t(g * kOperations + k)].data(), 3001, k % 2 ? "ring" : "tree",
                                          512, groups[std::size_t(g)].get()));
      }
    }
    for (executor::Operation* operation : operations) {
      if (me.finish(operation)) ++wrong;
    }
    for (const auto& each : data) {
      for (const float x : each) wrong += x != 6.0f;
    }
    for (auto& group : groups) me.context().remove_group(*group);
  });
  CHECK(wrong == 0);
}

TEST_CASE("a lost rank ends the operation on every other rank with an error that names it") {
  constexpr int kSize = 4;
  LocalJobs jobs(kSize, transport::bit_of("shm"));
  std::atomic<int> right{0};
  std::atomic<int> there{0};
  on_ranks(kSize, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), kShm);
    ++there;
    while (there < kSize) std::this_thread::yield();
    if (rank == 2) {
      jobs.lose(2);
      return;
    }
    std::vector<float> data(50'000, 1.0f);
    const Error error = me.finish(me.allreduce(data.data(), data.size(), "ring"));
    if (error.code() == ANELLO_ERR_PEER_LOST && error.text().find("rank 2") != std::string::npos) ++right;
  });
  CHECK(right == kSize - 1);
}

TEST_CASE("a rank that leaves without its part ends the operation of ranks that wait for it") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  Error error;
  std::atomic<int> there{0};
  on_ranks(2, [&](int rank) {
    auto me = std::make_unique<RankThread>(jobs, rank, transport::bit_of("shm"), kShm);
    ++there;
    while (there < 2) std::this_thread::yield();
    if (rank == 1) {
      me.reset();
      jobs.leave(1);
      return;
    }
    std::vector<float> data(100, 1.0f);
    error = me->finish(me->allreduce(data.data(), data.size(), "ring"));
  });
  CHECK(error.code() == ANELLO_ERR_PEER_LOST);
  // Rank 1 did both, one after the other; timing decides which of them rank 0 finds first.
  CHECK_THAT(error.text(),
             Catch::Contains("rank 1") && (Catch::Contains("left the job") || Catch::Contains("destroyed")));
}

TEST_CASE("ranks that disagree on the count hear of both calls") {
  LocalJobs jobs(3, transport::bit_of("shm"));
  std::atomic<int> right{0};
  std::atomic<int> there{0};
  on_ranks(3, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), kShm);
    ++there;
    while (there < 3) std::this_thread::yield();
    std::vector<float> data(2000, 1.0f);
    const Error error = me.finish(me.allreduce(data.data(), rank == 1 ? 1000 : 2000, "ring"));
    if (error.code() == ANELLO_ERR_MISMATCH && error.text().find("count 1000") != std::string::npos &&
        error.text().find("count 2000") != std::string::npos) {
      ++right;
    }
  });
  CHECK(right == 3);
}

TEST_CASE("a wait without progress ends at its deadline and names the awaited rank") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  Error error;
  std::atomic<bool> over{false};
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), kShm);
    if (rank == 1) {
      while (!over) std::this_thread::yield();
      return;
    }
    std::vector<float> data(100, 1.0f);
    error = me.finish(me.allreduce(data.data(), data.size(), "ring", 4096, nullptr, 300));
    over = true;
  });
  CHECK(error.code() == ANELLO_ERR_TIMEOUT);
  CHECK_THAT(error.text(), Catch::Contains("rank 1") && Catch::Contains("ANELLO_TIMEOUT_MS"));
}
