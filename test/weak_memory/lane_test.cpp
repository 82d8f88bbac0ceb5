// The lane between two processes of a host, under every order that weak memory allows: its rings, and the sleep of
// either end. The ring is so small that the frames wrap in it.
#include "support/catch.h"
#include "transports/shm/endpoint.h"
#include "weak_memory/explored_arena.h"

#include <array>
#include <cstring>
#include <memory>
#include <optional>

using namespace anello;
using namespace anello::weak_memory;

namespace {

constexpr std::size_t kRing = 512;
constexpr std::size_t kMostBytes = 1024;
constexpr std::uint64_t kMostExecutions = 2'000'000;

// The payload of a frame, made once.
const std::byte* payload_of(std::size_t frame) {
  static const auto all = [] {
    std::array<std::array<std::byte, kMostBytes>, 4> made;
    for (std::size_t i = 0; i < made.size(); ++i)
      for (std::size_t at = 0; at < kMostBytes; ++at) made[i][at] = std::byte(1 + i * 67 + at * 7 % 59);
    return made;
  }();
  return all[frame].data();
}

struct Lane {
  std::vector<std::uint32_t> frames;  // bytes of each
  bool writer_sleeps = false, reader_sleeps = false;
  bool often = false;   // who sleeps does so often (Sleeper::sleeps_often)
  bool agreed = false;  // ExploredArena::of
};

class LaneProgram {
 public:
  LaneProgram(const ExploredArena& arena, const Lane& lane) : arena_(arena), lane_(lane) {}

  Outcome explore(Explorer* explorer) {
    arena_.share_with(explorer);
    Program program;
    program.names = {"writer", "reader"};
    program.field = [this](std::uintptr_t at) { return arena_.field(at); };
    program.clear = [this] {
      for (auto& end : ends_) end.reset();
    };
    program.begin = [this, explorer] {
      for (int rank : {0, 1}) {
        arenas_[std::size_t(rank)] = arena_.of(rank, lane_.agreed);
        ends_[std::size_t(rank)].emplace(arenas_[std::size_t(rank)], 1 - rank, 1 - rank);
        sleepers_[std::size_t(rank)] = {};
        sleepers_[std::size_t(rank)].sleeps_often(arenas_[std::size_t(rank)], lane_.often);
      }
      return std::vector<std::function<void()>>{[this] { write(); }, [this, explorer] { read(explorer); }};
    };
    return explorer->explore(program, kMostExecutions);
  }

 private:
  void idle(int rank, bool sleeps) {
    if (!sleeps) return Explorer::running()->await_change();
    const auto self = std::size_t(rank);
    ExploredArena::sleep(arenas_[self], &sleepers_[self], [&] { return ends_[self]->before_sleep(); });
  }

  void write() {
    for (std::size_t frame = 0; frame < lane_.frames.size(); ++frame) {
      transport::FrameHeader header;
      header.bytes = lane_.frames[frame];
      header.tag = std::uint32_t(frame) + 1;
      while (!ends_[0]->send(header, payload_of(frame))) idle(0, lane_.writer_sleeps);
    }
  }

  void read(Explorer* explorer) {
    for (std::size_t frame = 0; frame < lane_.frames.size(); ++frame) {
      const transport::FrameHeader* header;
      while ((header = ends_[1]->incoming()) == nullptr) {
        if (ends_[1]->failure() != nullptr) return explorer->fail("the reader finds its ring corrupt");
        idle(1, lane_.reader_sleeps);
      }
      if (header->tag != frame + 1 || header->bytes != lane_.frames[frame]) return explorer->fail("a wrong header");
      std::size_t done = 0;
      std::array<std::byte, kMostBytes> got;
      while (ends_[1]->remaining() > 0) {
        const std::size_t part = ends_[1]->receive(got.data() + done, header->bytes - done);
        if (ends_[1]->failure() != nullptr) return explorer->fail("the reader finds its ring corrupt");
        if (part == 0) idle(1, lane_.reader_sleeps);
        done += part;
      }
      if (std::memcmp(got.data(), payload_of(frame), done) != 0) return explorer->fail("a wrong payload");
    }
  }

  const ExploredArena& arena_;
  const Lane& lane_;
  std::array<memory::Arena, 2> arenas_;
  std::array<memory::Sleeper, 2> sleepers_;
  std::array<std::optional<transport::ShmEndpoint>, 2> ends_;
};

// Frames within their slots, beside them, wrapped around the end, and larger than the ring.
const std::vector<std::pair<std::string, Lane>> kLanes{
    {"frames that wrap", {{128, 128, 128}}},
    {"small frames", {{16, 0, 3, 16}}},
    {"a frame larger than the ring", {{600}}},
    {"the reader sleeps", {{8, 8}, false, true}},
    {"the reader sleeps within a frame", {{400}, false, true}},
    {"the writer sleeps", {{128, 128, 128}, true, false}},
    {"the reader sleeps behind barriers", {{8}, false, true, false, true}},
    {"the reader sleeps often", {{8, 8}, false, true, true, true}},
    {"the writer sleeps behind barriers", {{256, 256}, true, false, false, true}},
};

// A fence follows the store, and the bell orders what the update does. No program here reads first_use.
const std::vector<std::string> kNotNeeded{"store sleeping seq_cst", "update first_use release",
                                          "update sleeping acq_rel"};

OrderCheck::Found check_orders(const std::vector<std::string>& left_out) {
  const ExploredArena arena(2, kRing);
  OrderCheck check;
  check.leave_out(left_out);
  for (const auto& each : kLanes)
    check.add(each.first,
              [&arena, &each](Explorer* explorer) { return LaneProgram(arena, each.second).explore(explorer); });
  return check.run();
}

}  // namespace

TEST_CASE("the lane keeps its promises under weak memory, and needs its orders") {
  const OrderCheck::Found found = check_orders(kNotNeeded);
  INFO(found.failure);
  REQUIRE(found.failure.empty());
  INFO(found.executions << " executions");
  CHECK(found.needed == std::vector<std::string>{"load head acquire", "load stamp acquire", "load tail acquire",
                                                 "store head release", "store stamp release", "store tail release",
                                                 "fence after head seq_cst", "fence after sender_waits seq_cst",
                                                 "fence after sleeping seq_cst", "fence after stamp seq_cst",
                                                 "fence after tail seq_cst"});
  CHECK(found.not_needed == std::vector<std::string>{});
}

TEST_CASE("orders of the lane that are stronger than they must be", "[.spare]") {
  CHECK(check_orders({}).not_needed == kNotNeeded);
}
