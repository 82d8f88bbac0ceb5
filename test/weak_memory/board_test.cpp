// The board on which the ranks of a host meet, under every order that weak memory allows: its lines and their payloads,
// sleep, the hands that ranks keep off each other's buffers, and the news of a failure.
#include "executor/board.h"
#include "support/catch.h"
#include "weak_memory/explored_arena.h"

#include <array>
#include <atomic>
#include <cstring>
#include <optional>

using namespace anello;
using namespace anello::weak_memory;
using executor::Board;
using executor::LineKind;
using executor::Round;

namespace {

constexpr std::uint64_t kMostExecutions = 2'000'000;
constexpr std::uint64_t kDigest = 77;
constexpr std::size_t kLarge = 2 * memory::kInlineBytes;  // beside the line

// A buffer of a rank, which others access.
struct alignas(64) Buffer {
  int plain;
  std::atomic<int> copied;  // by a system call, which reads whatever is there
} buffer;

struct Meeting {
  std::vector<std::size_t> payloads;  // bytes of each exchange
  bool sleeps = false;                // ranks that wait
  bool agreed = false;                // ExploredArena::of
  bool from_first = false;            // the others need the first rank's lines only, and it needs none
};

// Ranks with a board between them. Each program says what they do.
class Ranks {
 public:
  Ranks(int ranks, bool agreed) : arena_(ranks, 4096), ranks_(ranks), agreed_(agreed) {}

  using Body = std::function<void(Ranks&, int rank)>;
  // before: runs ahead of the threads, for each rank.
  Outcome explore(
      Explorer* explorer, const std::vector<Body>& bodies, const Body& before = [](Ranks&, int) {}) {
    arena_.share_with(explorer);
    explorer->share(&buffer, sizeof buffer);
    explorer_ = explorer;
    Program program;
    program.names = {"first", "second", "third"};
    program.field = [this](std::uintptr_t at) {
      return at - reinterpret_cast<std::uintptr_t>(&buffer) < sizeof buffer ? "buffer" : arena_.field(at);
    };
    program.clear = [this] {
      for (auto& each : boards_) each.reset();
    };
    program.begin = [&] {
      std::vector<int> local;
      for (int rank = 0; rank < ranks_; ++rank) {
        local.push_back(rank);
        arenas_[std::size_t(rank)] = arena_.of(rank, agreed_);
        sleepers_[std::size_t(rank)] = {};
      }
      std::vector<std::function<void()>> threads;
      for (int rank = 0; rank < ranks_; ++rank) {
        boards_[std::size_t(rank)].emplace(arenas_[std::size_t(rank)], 0, local, rank, 1, false);
        threads.push_back([this, &bodies, rank] { bodies[std::size_t(rank) % bodies.size()](*this, rank); });
      }
      for (int rank = 0; rank < ranks_; ++rank) before(*this, rank);
      return threads;
    };
    return explorer->explore(program, kMostExecutions);
  }

  Board& board(int rank) { return *boards_[std::size_t(rank)]; }
  Explorer& explorer() { return *explorer_; }

  // Runs until is_done, which looks.
  void wait(int rank, bool sleeps, const std::function<bool()>& is_done) {
    const auto self = std::size_t(rank);
    while (!is_done()) {
      if (!sleeps) {
        explorer_->await_change();
        continue;
      }
      board(rank).about_to_sleep();
      ExploredArena::sleep(arenas_[self], &sleepers_[self], is_done);
    }
  }

 private:
  ExploredArena arena_;
  int ranks_;
  bool agreed_;
  Explorer* explorer_ = nullptr;
  std::array<memory::Arena, 3> arenas_;
  std::array<memory::Sleeper, 3> sleepers_;
  std::array<std::optional<Board>, 3> boards_;
};

const std::byte* payload_of(int rank, std::size_t exchange) {
  static const auto all = [] {
    std::array<std::array<std::byte, kLarge>, 12> made;
    for (std::size_t i = 0; i < made.size(); ++i) made[i].fill(std::byte(1 + i));
    return made;
  }();
  return all[std::size_t(rank) * 4 + exchange].data();
}

void meet(Ranks& ranks, int rank, const Meeting& meeting) {
  Board& board = ranks.board(rank);
  const int needs = !meeting.from_first ? Board::kAll : rank == 0 ? Board::kNobody : 0;
  for (std::size_t exchange = 0; exchange < meeting.payloads.size(); ++exchange) {
    const std::size_t bytes = meeting.payloads[exchange];
    Board::Seen seen = Board::Seen::waiting;
    ranks.wait(rank, meeting.sleeps, [&] { return (seen = board.room(bytes)) != Board::Seen::waiting; });
    if (seen != Board::Seen::complete) return ranks.explorer().fail("no agreement on what is behind");
    board.publish(LineKind::exchange, payload_of(rank, exchange), bytes, kDigest + exchange, std::uint32_t(exchange),
                  needs);
    ranks.wait(rank, meeting.sleeps,
               [&] { return (seen = board.look(Round::exchange, kDigest + exchange)) != Board::Seen::waiting; });
    if (seen != Board::Seen::complete) return ranks.explorer().fail("no agreement on an exchange");
    for (int peer = 0; peer < 2; ++peer) {
      if (peer == rank || needs == Board::kNobody || (needs >= 0 && peer != needs)) continue;
      if (std::memcmp(board.payload(peer, bytes), payload_of(peer, exchange), bytes) != 0)
        return ranks.explorer().fail("a wrong payload");
    }
    board.finish();
  }
}

Outcome explore_meeting(Explorer* explorer, const Meeting& meeting) {
  Ranks ranks(2, meeting.agreed);
  return ranks.explore(explorer, {[&](Ranks& all, int rank) { meet(all, rank, meeting); }});
}

// The third rank sleeps for the lines of both others, of which the last wakes it.
Outcome explore_last_line(Explorer* explorer) {
  Ranks ranks(3, false);
  const auto publish = [](Ranks& all, int rank) {
    all.board(rank).publish(LineKind::exchange, payload_of(rank, 0), 8, kDigest, 0, Board::kAll);
  };
  const auto sleep = [](Ranks& all, int rank) {
    all.wait(rank, true, [&] { return all.board(rank).look(Round::exchange, kDigest) != Board::Seen::waiting; });
  };
  const auto publish_early = [&](Ranks& all, int rank) {
    if (rank == 2) publish(all, rank);
  };
  return ranks.explore(explorer, {publish, publish, sleep}, publish_early);
}

// The second rank writes to the first one's buffer, which the first gives up meanwhile.
Outcome explore_touching(Explorer* explorer, bool agreed) {
  constexpr std::uint32_t kSequence = 5;
  Ranks ranks(2, agreed);
  return ranks.explore(explorer, {[](Ranks& all, int) {
    all.board(0).stop(kSequence);
    all.wait(0, false, [&] { return !all.board(0).is_touching(1, kSequence); });
    buffer.plain = 1;  // its caller's again
                                  },
                                  [](Ranks& all, int) {
    if (!all.board(1).begin_touching(kSequence)) return;
    buffer.plain = 2;
    if (all.board(1).may_touch(kSequence)) buffer.plain = 3;
    all.board(1).end_touching();
  }});
}

// The second rank copies a message from the first one's buffer, which the first withdraws meanwhile.
Outcome explore_gets(Explorer* explorer) {
  Ranks ranks(2, false);
  return ranks.explore(explorer, {[](Ranks& all, int) {
    all.board(0).stop_gets_of_peers();
    buffer.copied.store(1, std::memory_order_relaxed);
                                  },
                                  [](Ranks& all, int) {
    const int got = buffer.copied.load(std::memory_order_relaxed);
    if (all.board(1).allows_gets(0) && got != 0) all.explorer().fail("a copy of other bytes passes for the message");
  }});
}

Outcome explore_failure(Explorer* explorer) {
  constexpr std::uint64_t kId = 9;
  Ranks ranks(2, false);
  return ranks.explore(explorer, {[](Ranks& all, int) {
    all.board(0).publish_failure(kId, {ANELLO_ERR_TIMEOUT, true});
                                  },
                                  [](Ranks& all, int) {
    Board::Failed its;
    all.wait(1, false, [&] {
      its = all.board(1).failed(0, kId);
      return its.code != ANELLO_OK;
    });
    if (its.code != ANELLO_ERR_TIMEOUT || !its.first_hand) all.explorer().fail("half of a failure");
  }});
}

const std::vector<std::pair<std::string, Meeting>> kMeetings{
    {"payloads in the line", {{8, 8}}},
    {"payloads that reuse their place", {{kLarge, kLarge, kLarge}}},
    {"one rank needs no line", {{kLarge, kLarge, kLarge}, false, false, true}},
    {"both sleep", {{8, 8}, true}},
    {"both sleep behind barriers", {{8}, true, true}},
};

// Fences stand beside the stores of `sleeping` and `stopped`, and another before the one after `asleep_for`; who sees a
// stop touches nothing; and the bell orders what the update does.
const std::vector<std::string> kNotNeeded{"load stopped acquire", "store sleeping seq_cst", "store stopped seq_cst",
                                          "update sleeping acq_rel", "fence after asleep_for seq_cst"};

OrderCheck::Found check_orders(const std::vector<std::string>& left_out) {
  OrderCheck check;
  check.leave_out(left_out);
  for (const auto& each : kMeetings)
    check.add(each.first, [&each](Explorer* explorer) { return explore_meeting(explorer, each.second); });
  check.add("the last line wakes", explore_last_line);
  check.add("touching", [](Explorer* explorer) { return explore_touching(explorer, false); });
  check.add("touching behind barriers", [](Explorer* explorer) { return explore_touching(explorer, true); });
  check.add("gets", explore_gets);
  check.add("failure", explore_failure);
  return check.run();
}

}  // namespace

TEST_CASE("the board keeps its promises under weak memory, and needs its orders") {
  const OrderCheck::Found found = check_orders(kNotNeeded);
  INFO(found.failure);
  REQUIRE(found.failure.empty());
  INFO(found.executions << " executions");
  CHECK(found.needed == std::vector<std::string>{"load failed acquire", "load number acquire", "load touching acquire",
                                                 "store failed release", "store number release",
                                                 "store touching release", "fence after allows_no_gets seq_cst",
                                                 "fence after buffer acquire", "fence after number seq_cst",
                                                 "fence after sleeping seq_cst", "fence after stopped seq_cst",
                                                 "fence after touching seq_cst"});
  CHECK(found.not_needed == std::vector<std::string>{});
}

TEST_CASE("orders of the board that are stronger than they must be", "[.spare]") {
  CHECK(check_orders({}).not_needed == kNotNeeded);
}
