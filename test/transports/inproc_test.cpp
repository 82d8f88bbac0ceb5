#include "base/clock.h"
#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/inproc/transport.h"

#include <algorithm>
#include <thread>

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;
using namespace anello::transport;

namespace {

Lane inproc_lane() {
  Lane lane;
  for (int rank : {0, 1}) lane.keep.push_back(make_inproc(lane.arena->of(rank)));
  lane.end[0] = lane.keep[0]->open(1, 1, {});
  lane.end[1] = lane.keep[1]->open(0, 0, {});
  return lane;
}

}  // namespace

TEST_CASE("inproc keeps the contract of a lane") { keeps_contract(inproc_lane); }

TEST_CASE("inproc hands over a large payload in place") {
  Lane lane = inproc_lane();
  const auto payload = payload_of(0, 0, 100'000);
  CHECK_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  CHECK(lane.end[0]->mid_frame());
  REQUIRE(lane.end[1]->incoming() != nullptr);
  CHECK(lane.end[1]->view().data() == payload.data());
  lane.end[1]->consume(64);
  CHECK(lane.end[1]->view().data() == payload.data() + 64);
  CHECK_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  lane.end[1]->consume(100'000 - 64);
  CHECK(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
}

TEST_CASE("inproc does not return memory while the receiver views it") {
  Lane lane = inproc_lane();
  auto payload = payload_of(0, 0, 100'000);
  CHECK_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  REQUIRE(lane.end[1]->incoming() != nullptr);
  const std::span<const std::byte> seen = lane.end[1]->view();
  std::atomic<bool> consuming{false};
  bool early = false;
  std::thread sender([&] {
    lane.end[0]->detach();
    early = !consuming.load();
    std::fill(payload.begin(), payload.end(), std::byte{0xee});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool intact = seen[0] == byte_of(0, 0, 0) && seen[1599] == byte_of(0, 0, 1599);
  consuming.store(true);
  lane.end[1]->consume(1600);
  sender.join();
  CHECK(intact);
  CHECK_FALSE(early);
  std::vector<std::byte> rest(100'000 - 1600);
  const Deadline deadline = Deadline::in_ms(20'000);
  for (std::size_t have = 0; have < rest.size() && !deadline.passed();) {
    have += lane.end[1]->receive(rest.data() + have, rest.size() - have);
  }
  CHECK(rest.front() == byte_of(0, 0, 1600));
  CHECK(rest.back() == byte_of(0, 0, 99'999));
  CHECK(lane.end[0]->flush());
}

TEST_CASE("inproc keeps the frames of a rank that has left for one that comes later") {
  TestArena arena(2);
  {
    const auto early = make_inproc(arena.of(0));
    const auto end = early->open(1, 1, {});
    const auto payload = payload_of(0, 0, 100);
    REQUIRE(end->send(header_of(0, 0, 100), payload.data()));
  }
  const auto late = make_inproc(arena.of(1));
  CHECK(arena.of(1).inbox(1).first_use[0].load() == 1);
  const auto end = late->open(0, 0, {});
  Collector collector(*end);
  REQUIRE(collector.poll());
  CHECK(difference(collector.header(), collector.payload(), 0, 0, 100) == "");
  CHECK_FALSE(collector.poll());
  REQUIRE(end->failure() != nullptr);
  CHECK(end->failure()->code() == ANELLO_ERR_PEER_LOST);
}

TEST_CASE("inproc refuses a peer that is not a thread of this process") {
  TestArena arena(2);
  CHECK_THROWS_AS(make_inproc(arena.of(0))->open(1, -1, {}), Error);
  CHECK_THROWS_AS(make_inproc(arena.of(0))->open(0, 0, {}), Error);
  CHECK_THROWS_AS(make_inproc(memory::Arena())->open(1, 1, {}), Error);
}
