// Runs exchanges over a board, a step of one rank at a time in random order: nothing waits, so that every interleaving
// can come.
#include "support/catch.h"
#include "transports/registry.h"
#include "executor/board.h"
#include "support/local_jobs.h"
#include "support/processors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include <sched.h>

using namespace anello;
using namespace anello::test;
using executor::Board;
using executor::LineKind;
using executor::Round;

namespace {

constexpr int kSize = 3;
constexpr int kWrongOne = -2;  // some rank found a disagreement where there is none

// One exchange, as all ranks know it.
struct Exchange {
  std::size_t bytes = 0;
  int root = 0;
  enum class Kind { all, from_root, to_root } kind = Kind::all;

  int needs(int rank) const {
    if (kind == Kind::all) return Board::kAll;
    if (kind == Kind::to_root) return rank == root ? Board::kAll : Board::kNobody;
    return rank == root ? Board::kNobody : root;
  }
};

std::vector<std::byte> payload_of(int rank, std::size_t exchange, std::size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte(1 + (rank * 101 + int(exchange) * 7) % 251));
}

struct Rank {
  Board board;
  int rank;
  std::size_t alone_from = SIZE_MAX;  // from there on its calls differ from the others'
  std::size_t at = 0;
  bool published = false;

  // Does one step, if one can be done. False: a payload is wrong, or lines disagree.
  bool step(const std::vector<Exchange>& exchanges) {
    const Exchange& now = exchanges[at];
    const std::uint64_t digest = at * 31 + 1 + (at >= alone_from ? 7 : 0);
    if (!published) {
      const Board::Seen room = board.room(now.bytes);
      if (room != Board::Seen::complete) return room == Board::Seen::waiting;
      board.publish(LineKind::exchange, payload_of(rank, at, now.bytes).data(), now.bytes, digest, std::uint32_t(at),
                    now.needs(rank));
      published = true;
      return true;
    }
    const Board::Seen seen = board.look(Round::exchange, digest);
    if (seen != Board::Seen::complete) return seen == Board::Seen::waiting;
    for (int peer = 0; peer < kSize; ++peer) {
      const int needs = now.needs(rank);
      if (peer == rank || (needs != Board::kAll && needs != peer)) continue;
      const auto right = payload_of(peer, at, now.bytes);
      const std::byte* const got = board.payload(peer, now.bytes);
      if (!std::equal(right.begin(), right.end(), got)) return false;
    }
    board.finish();
    published = false;
    ++at;
    return true;
  }
};

// The furthest that some rank got ahead of another one, or -1 if one read a wrong payload or found a disagreement.
// alone: a rank, and the exchange from which on its calls differ.
int furthest(const std::vector<Exchange>& exchanges, unsigned seed, bool crowded,
             std::pair<int, std::size_t> alone = {0, SIZE_MAX}) {
  LocalJobs jobs(kSize, transport::bit_of("shm"));
  std::vector<Rank> ranks;
  // As close to the wrap of the numbers as may be (first_exchange).
  constexpr std::uint32_t kFirst = UINT32_MAX - memory::kBoardLines;
  for (int r = 0; r < kSize; ++r) {
    ranks.push_back(
        {Board(jobs.arena(r), 0, {0, 1, 2}, r, kFirst, crowded), r, r == alone.first ? alone.second : SIZE_MAX});
  }
  std::mt19937 random(seed);
  int lead = 0;
  for (;;) {
    int least = int(exchanges.size()), most = 0;
    for (const Rank& each : ranks) {
      least = std::min(least, int(each.at));
      most = std::max(most, int(each.at));
    }
    lead = std::max(lead, most - least);
    if (least == int(exchanges.size())) {
      for (Rank& each : ranks) {
        const auto disagreed = each.board.disagreed();
        if (disagreed && disagreed->sequence == alone.second) return -1;
      }
      return lead;
    }
    // Now and then one rank stays behind for long.
    const unsigned sleeper = random() % 64 < 60 ? seed % kSize : kSize;
    Rank& next = ranks[random() % kSize];
    if (next.at == exchanges.size() || (unsigned(next.rank) == sleeper && least != int(next.at))) continue;
    if (unsigned(next.rank) == sleeper && random() % 16 != 0) continue;
    if (!next.step(exchanges)) return -1;
    // A waiting rank asks this: whatever it was told before, it learns of the first exchange that differs, and only it.
    if (random() % 8 == 0) {
      const auto disagreed = next.board.disagreed();
      if (disagreed && disagreed->sequence != alone.second) return kWrongOne;
      if (disagreed) return -1;
    }
  }
}

}  // namespace

TEST_CASE("exchanges over a board give every rank its payloads, whichever rank gets ahead") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed * 7919);
    std::vector<Exchange> exchanges(200);
    for (Exchange& each : exchanges) {
      constexpr std::array<std::size_t, 5> kBytes{0, 8, memory::kInlineBytes, memory::kInlineBytes + 1, 3000};
      each = {kBytes[random() % kBytes.size()], int(random() % kSize), Exchange::Kind(random() % 3)};
    }
    INFO("seed " << seed);
    REQUIRE(furthest(exchanges, seed, seed % 2 == 0) >= 0);
  }
}

TEST_CASE("a rank that needs no line gets as far ahead as there are places, and no further") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const std::vector<Exchange> small(600, {8, 0, Exchange::Kind::from_root});
    CHECK(furthest(small, 3 * seed + 1, false) == 32);
    CHECK(furthest(small, 3 * seed + 1, true) == int(memory::kBoardLines / 2));
    const std::vector<Exchange> large(60, {500, 0, Exchange::Kind::from_root});
    CHECK(furthest(large, 3 * seed + 1, true) == int(memory::kBoardPayloads));
    const std::vector<Exchange> everybody(60, {8, 0, Exchange::Kind::all});
    CHECK(furthest(everybody, 3 * seed + 1, true) == 1);
  }
}

TEST_CASE("where ranks share processors, a rank knows whether all awaited ranks were on other ones") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const std::vector<int> processors = allowed_processors();
  if (processors.size() < 2) {
    WARN("SKIPPED: needs two processors");
    return;
  }
  const auto move_to = [&](std::size_t processor) { REQUIRE(bind_to(processors[processor])); };
  for (const bool crowded : {true, false}) {
    LocalJobs jobs(kSize, transport::bit_of("shm"));
    std::vector<Board> boards;
    for (int rank = 0; rank < kSize; ++rank)
      boards.emplace_back(jobs.arena(rank), 0, std::vector<int>{0, 1, 2}, rank, 1, crowded);
    const auto publish = [&](int rank, std::uint64_t digest) {
      boards[std::size_t(rank)].publish(LineKind::exchange, nullptr, 0, digest, 0);
    };
    // Ranks 0 and 1 are on the first processor, rank 2 is on the other.
    move_to(0);
    publish(0, 1);
    publish(1, 1);
    move_to(1);
    publish(2, 1);
    for (Board& board : boards) {
      REQUIRE(board.look(Round::exchange, 1) == Board::Seen::complete);
      board.finish();
    }
    move_to(0);
    publish(0, 2);
    CHECK_FALSE(boards[0].awaits_elsewhere());  // rank 1 needs this processor
    publish(1, 2);
    CHECK(boards[1].awaits_elsewhere() == crowded);
    CHECK(boards[0].awaits_elsewhere() == crowded);
    move_to(1);
    CHECK_FALSE(boards[0].awaits_elsewhere());  // now it is in rank 2's way
  }
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("the last line wakes a rank that sleeps for the lines of all ranks") {
  LocalJobs jobs(kSize, transport::bit_of("shm"));
  std::vector<Board> boards;
  for (int rank = 0; rank < kSize; ++rank)
    boards.emplace_back(jobs.arena(rank), 0, std::vector<int>{0, 1, 2}, rank, 1, true);
  std::atomic<std::uint32_t>& sleeping = jobs.arena(0).inbox(0).sleeping;
  using memory::Inbox;
  const std::uint32_t awake = GENERATE(0u, Inbox::kFenced);  // the rank may sleep often
  const std::uint32_t asleep = awake | Inbox::kAsleep;
  CAPTURE(awake);
  sleeping.store(awake);
  const auto sleep = [&] {
    boards[0].about_to_sleep();
    sleeping.store(asleep);
  };
  const auto publish = [&](int rank, std::uint64_t digest, int needs = Board::kAll) {
    boards[std::size_t(rank)].publish(LineKind::exchange, nullptr, 0, digest, 0, needs);
  };
  const auto finish = [&] {
    for (Board& board : boards) board.finish();
  };
  for (int round = 0; round < 3; ++round) {
    publish(0, 1);
    sleep();
    publish(2, 1);
    CHECK(sleeping.load() == asleep);
    publish(1, 1);
    CHECK(sleeping.load() == awake);
    finish();
  }
  SECTION("a line of another call wakes it at once") {
    publish(0, 1);
    sleep();
    publish(1, 2);
    CHECK(sleeping.load() == awake);
  }
  SECTION("a line that finds another call's wakes it at once") {
    publish(0, 1);
    publish(1, 1);
    sleep();
    publish(2, 2);
    CHECK(sleeping.load() == awake);
  }
  SECTION("any line wakes it if it sleeps for one rank's or for room") {
    publish(0, 1, 1);
    sleep();
    publish(1, 1);
    CHECK(sleeping.load() == awake);
    boards[0].finish();
    sleep();
    publish(2, 1);
    CHECK(sleeping.load() == awake);
  }
  SECTION("a line of the next exchange wakes it, whatever it said before") {
    publish(0, 1);
    sleep();
    for (int rank = 1; rank < kSize; ++rank) publish(rank, 1);
    finish();
    sleeping.store(asleep);
    publish(1, 1);
    CHECK(sleeping.load() == awake);
  }
}

TEST_CASE("some rank finds calls that differ, even if no rank needs the line that differs") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    for (const std::size_t length : {std::size_t(1), std::size_t(3), std::size_t(40)}) {
      INFO("seed " << seed << ", " << length << " exchanges");
      std::vector<Exchange> exchanges(length, {random() % 2 != 0 ? 8u : 500u, 0, Exchange::Kind(1 + random() % 2)});
      CHECK(furthest(exchanges, seed, seed % 2 == 0, {int(random() % kSize), random() % length}) == -1);
      CHECK(furthest(exchanges, seed, seed % 2 == 0) >= 0);
    }
  }
}
