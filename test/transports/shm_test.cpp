#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/shm/ring.h"
#include "transports/shm/transport.h"

#include <cstdio>

#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;
using namespace anello::transport;

namespace {

Lane shm_lane(std::size_t ring_bytes) {
  Lane lane;
  lane.arena = std::make_shared<TestArena>(2, ring_bytes);
  lane.end[0] = make_shm(lane.arena->of(0))->open(1, 1, {});
  lane.end[1] = make_shm(lane.arena->of(1))->open(0, 0, {});
  return lane;
}

// The first slot of the ring from 0 to 1, where a faulty sender may write anything.
Slot& first_slot(const Lane& lane) { return *reinterpret_cast<Slot*>(lane.arena->of(0).ring_data(0, 1)); }

void must_be_corrupt(Endpoint& end) {
  Collector collector(end);
  for (int i = 0; i < 100 && end.failure() == nullptr; ++i) collector.poll();
  REQUIRE(end.failure() != nullptr);
  CHECK(end.failure()->code() == ANELLO_ERR_CORRUPT);
  CHECK(end.incoming() == nullptr);
  CHECK(end.view().empty());
}

}  // namespace

TEST_CASE("shm keeps the contract of a lane") {
  keeps_contract([] { return shm_lane(64 * 1024); });
}

TEST_CASE("shm keeps the contract of a lane in a ring of one page") {
  keeps_contract([] { return shm_lane(4096); });
}

TEST_CASE("shm keeps the contract of a lane in a ring larger than any frame") {
  keeps_contract([] { return shm_lane(1024 * 1024); });
}

TEST_CASE("shm works between two processes") {
  const std::uint64_t seed = 11;
  TestArena arena(2);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string wrong = "no lane";
    try {
      const auto end = make_shm(arena.of(1))->open(0, 0, {});
      wrong = soak_end(*end, arena, 1, seed, 500);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) std::fprintf(stderr, "in the child: %s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  const auto end = make_shm(arena.of(0))->open(1, 1, {});
  CHECK(soak_end(*end, arena, 0, seed, 500) == "");
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a sender leaves space before the next slot only if it was answered, and all frames arrive") {
  Lane lane = shm_lane(32 * 1024);
  Collector collectors[2] = {Collector(*lane.end[0]), Collector(*lane.end[1])};
  std::uint32_t sequence[2] = {};
  std::size_t sent = 0;
  const auto turn = [&](int from, std::size_t bytes) {
    CAPTURE(from, sequence[from], bytes, sent);
    const auto payload = payload_of(from, sequence[from], bytes);
    REQUIRE(lane.end[from]->send(header_of(from, sequence[from], bytes), payload.data()));
    Collector& collector = collectors[1 - from];
    REQUIRE(collector.poll());
    REQUIRE(difference(collector.header(), collector.payload(), from, sequence[from], bytes) == "");
    CHECK(collector.complaint == "");
    ++sequence[from];
    sent += from == 0 ? bytes : 0;
  };
  turn(0, 2048);
  CHECK(first_slot(lane).stamp.load() == 64 + 2048);  // the peer had not answered
  turn(1, 16);
  const Slot& second = *reinterpret_cast<Slot*>(lane.arena->of(0).ring_data(0, 1) + 64 + 2048);
  turn(0, 2048);
  CHECK(second.stamp.load() == ((2 * (64 + 2048) + kSpace) | kSpaced));
  const std::size_t sizes[] = {8, 1000, 1024, 1088, 4096, 3, 16 * 1024, 7777};
  for (int i = 0; i < 200; ++i) {
    turn(1, sizes[(i * 3 + 1) % 8]);
    turn(0, sizes[i % 8]);
    if (i % 5 == 0) turn(0, sizes[(i + 4) % 8]);  // not answered
  }
  CHECK(sent > 20 * 32 * 1024);
}

TEST_CASE("a first frame marks its sender in the receiver's inbox and wakes it") {
  Lane lane = shm_lane(4096);
  const std::atomic<std::uint64_t>& bits = lane.arena->of(1).inbox(1).first_use[0];
  CHECK(bits.load() == 0);
  lane.arena->of(1).inbox(1).sleeping.store(1);
  REQUIRE(lane.end[0]->send(header_of(0, 0, 0), nullptr));
  CHECK(bits.load() == 1);
  CHECK(lane.arena->of(1).inbox(1).sleeping.load() == 0);
  std::uint64_t rung = 0;
  CHECK(::read(lane.arena->bell(1), &rung, sizeof rung) == sizeof rung);
  CHECK(lane.arena->of(0).inbox(0).first_use[0].load() == 0);
}

TEST_CASE("a shared ring whose sender writes nonsense is corrupt, and the receiver touches nothing outside it") {
  Lane lane = shm_lane(4096);
  const auto payload = payload_of(0, 0, 1000);
  REQUIRE(lane.end[0]->send(header_of(0, 0, 1000), payload.data()));
  Slot& slot = first_slot(lane);
  SECTION("a frame larger than any") { slot.bytes = 0xffffffff; }
  SECTION("a frame just larger than any") { slot.bytes = kMaxFrameBytes + 1; }
  SECTION("a stamp before the frame") { slot.stamp.store(~std::uint64_t{63}); }
  SECTION("a stamp beyond the frame") { slot.stamp.store(64 + 1024 + 64); }
  SECTION("a stamp beyond the ring") {
    slot.bytes = kMaxFrameBytes;
    slot.stamp.store(4096 + 64);
  }
  SECTION("a stamp that is not a position") { slot.stamp.store(64 + 1000); }
  SECTION("space after a frame that is not whole") { slot.stamp.store((64 + 512) | kSpaced); }
  SECTION("space that the position does not count") { slot.stamp.store((64 + 1024) | kSpaced); }
  SECTION("space beyond the ring") {
    slot.bytes = 2000;
    slot.stamp.store((64 + 2048 + kSpace) | kSpaced);
  }
  must_be_corrupt(*lane.end[1]);
}

TEST_CASE("a shared ring whose tail is nonsense is corrupt") {
  Lane lane = shm_lane(4096);
  const auto payload = payload_of(0, 0, 100'000);
  REQUIRE_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  memory::RingControl& control = lane.arena->of(0).ring(0, 1);
  SECTION("far away") { control.tail.store(std::uint64_t{1} << 40); }
  SECTION("not a position") { control.tail.store(4096 + 32); }
  SECTION("at the end of the range of numbers") { control.tail.store((std::uint64_t{1} << 63) - 64); }
  must_be_corrupt(*lane.end[1]);
}

TEST_CASE("a shared ring whose receiver writes nonsense is corrupt for the sender") {
  Lane lane = shm_lane(4096);
  const auto payload = payload_of(0, 0, 100'000);
  REQUIRE_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  memory::RingControl& control = lane.arena->of(0).ring(0, 1);
  SECTION("more consumed than was sent") { control.head.store(4096 + 64); }
  SECTION("less than nothing") { control.head.store(~std::uint64_t{63}); }
  CHECK_FALSE(lane.end[0]->send(header_of(0, 0, 100'000), payload.data()));
  REQUIRE(lane.end[0]->failure() != nullptr);
  CHECK(lane.end[0]->failure()->code() == ANELLO_ERR_CORRUPT);
}

TEST_CASE("shm refuses a peer that shares no memory, and a ring that cannot wrap") {
  TestArena arena(2);
  CHECK_THROWS_AS(make_shm(arena.of(0))->open(1, -1, {}), Error);
  CHECK_THROWS_AS(make_shm(arena.of(0))->open(1, 2, {}), Error);
  CHECK_THROWS_AS(make_shm(memory::Arena())->open(1, 1, {}), Error);
  TestArena odd(2, 5000);
  CHECK_THROWS_AS(make_shm(odd.of(0))->open(1, 1, {}), Error);
}

TEST_CASE("shm is usable on this machine") { CHECK(shm_why_not() == ""); }
