// Ranks as threads of one process meet, and find each other as they should.
#include "base/clock.h"
#include "bootstrap/thread_ranks.h"
#include "support/catch.h"
#include "transports/registry.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace anello;
using namespace anello::control;
using anello::testing::join_threads;
using anello::testing::join_threads_by_id;
using anello::testing::Joined;

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
      CHECK(job.arena().inbox(rank).state.load() == memory::RankState::alive);
      for (int peer = 0; peer < size; ++peer) {
        CHECK(job.members()[peer].rank == peer);
        CHECK(job.members()[peer].local_index == peer);
        CHECK(job.members()[peer].machine == job.members()[0].machine);
        CHECK(job.members()[peer].transport() == (peer == rank ? 0u : transport::bit_of("inproc")));
      }
    }
  }
}

namespace {

// Lanes by peer, as events bring them; a second one for a peer is counted.
struct Arrivals {
  std::map<int, UniqueFd> lanes;
  int doubled = 0;
};

void collect(Job& job, Arrivals& arrivals, std::size_t enough, std::int64_t limit_ms) {
  const Deadline deadline = Deadline::in_ms(limit_ms);
  while (arrivals.lanes.size() < enough && !deadline.passed()) {
    pollfd look{job.wake_descriptor(), POLLIN, 0};
    ::poll(&look, 1, static_cast<int>(deadline.left_ms()));
    std::uint64_t count;
    [[maybe_unused]] const ssize_t got = ::read(job.wake_descriptor(), &count, sizeof count);
    for (Event& event : job.take_events()) {
      if (event.kind != Event::Kind::lane) continue;
      if (arrivals.lanes.contains(event.peer)) ++arrivals.doubled;
      arrivals.lanes[event.peer] = std::move(event.rails.front());
    }
  }
}

}  // namespace

TEST_CASE("ranks that all ask each other for lanes at once get one for each pair, whose ends belong together") {
  constexpr int kRanks = 6;
  for (int round = 0; round < 5; ++round) {
    std::vector<Joined> ranks = join_threads_by_id(kRanks, "tcp");
    std::vector<Arrivals> arrivals(kRanks);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(ranks[rank].job);
      threads.emplace_back([&, rank] {
        ++ready;
        while (ready < kRanks) std::this_thread::yield();
        for (int peer = 0; peer < kRanks; ++peer) ranks[rank].job->request_lane(peer);
        collect(*ranks[rank].job, arrivals[rank], kRanks - 1, 20'000);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(arrivals[rank].lanes.size() == kRanks - 1);
      for (const auto& [peer, lane] : arrivals[rank].lanes) {
        REQUIRE(::send(lane.get(), &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const auto& [peer, lane] : arrivals[rank].lanes) {
        pollfd look{lane.get(), POLLIN, 0};
        CHECK(::poll(&look, 1, 20'000) == 1);
        int said = -1;
        CHECK(::recv(lane.get(), &said, sizeof said, MSG_DONTWAIT) == sizeof said);
        CHECK(said == peer);
      }
      collect(*ranks[rank].job, arrivals[rank], kRanks, 10);
      CHECK(arrivals[rank].doubled == 0);
    }
  }
}

TEST_CASE("a watched descriptor calls once, again when asked again, and never after unwatch") {
  const std::vector<Joined> ranks = join_threads_by_id(2);
  Job& job = *ranks[0].job;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  const auto called = [&] {
    const std::lock_guard lock(mutex);
    ++calls;
    changed.notify_all();
  };
  const auto calls_become = [&](int expected) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return calls == expected; });
  };
  job.watch(reading.get(), called);
  REQUIRE(::write(writing.get(), "x", 1) == 1);
  CHECK(calls_become(1));
  // Still readable, nobody asked: asking again is what makes the next call.
  job.watch(reading.get(), called);
  CHECK(calls_become(2));
  char byte;
  REQUIRE(::read(reading.get(), &byte, 1) == 1);
  job.watch(reading.get(), called);
  job.unwatch();
  REQUIRE(::write(writing.get(), "x", 1) == 1);
  // Another descriptor, so that it is known that the service thread has come past this point.
  const UniqueFd event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  job.watch(event.get(), called);
  CHECK(calls_become(3));
  job.unwatch();
  CHECK(calls == 3);
}
